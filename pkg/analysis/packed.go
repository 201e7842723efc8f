package analysis

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
)

// packFloats writes numbers as base64 of their bits, little endian. JSON reads and writes that ten times as fast as a list of numbers.
func packFloats(list []float64) ([]byte, error) {
	bits := make([]byte, 0, 8*len(list))
	for _, v := range list {
		bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(v))
	}
	return base64.StdEncoding.AppendEncode(nil, bits), nil
}

// unpackFloats reads the output of packFloats into a list of the same length.
func unpackFloats(text []byte, into []float64) error {
	bits, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("read packed numbers: %w", err)
	}
	if len(bits) != 8*len(into) {
		return fmt.Errorf("read packed numbers: %d bytes for %d numbers", len(bits), len(into))
	}
	for i := range into {
		into[i] = math.Float64frombits(binary.LittleEndian.Uint64(bits[8*i:]))
	}
	return nil
}

// MarshalText packs the hypotheses.
func (h hypotheses) MarshalText() ([]byte, error) { return packFloats(h[:]) }

// UnmarshalText reads the output of MarshalText.
func (h *hypotheses) UnmarshalText(text []byte) error { return unpackFloats(text, h[:]) }

// MarshalText packs the weights.
func (w shapeWeights) MarshalText() ([]byte, error) { return packFloats(w[:]) }

// UnmarshalText reads the output of MarshalText.
func (w *shapeWeights) UnmarshalText(text []byte) error { return unpackFloats(text, w[:]) }
