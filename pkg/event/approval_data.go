package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// fields are the members of a JSON object, by their exact names.
type fields map[string]json.RawMessage

// parseObject reads one JSON object. It refuses a duplicate name and any text after the object, because two readers could see two different
// decisions. For the same reason it matches names exactly; decoding into a struct would not.
func parseObject(body []byte) (fields, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New(`it is not a JSON object, want one like {"decision": "approve", "rolloutID": "v1.4.2"}`)
	}
	f := fields{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		if _, twice := f[name.(string)]; twice {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		f[name.(string)] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return f, nil
}

// readField reads a field. It treats null as an absent field.
func (f fields) readField(name string, into any) (given bool, err error) {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return true, fmt.Errorf("data.%s has the wrong type: %w", name, err)
	}
	return true, nil
}

// readText reads a text. It refuses an empty text, because that usually comes from an unset variable. An approval with fewer names than its sender
// meant would match more releases.
func (f fields) readText(name string, into *string, most int) error {
	given, err := f.readField(name, into)
	if !given || err != nil {
		return err
	}
	allowed := ""
	if name == "comment" {
		if *into == "" {
			return nil
		}
		allowed = "\n\r\t"
	}
	return checkText("data."+name, *into, most, allowed)
}

// textField is a field with a text, and the most bytes that it may have.
type textField struct {
	name  string
	value *string
	most  int
}

func (f fields) readTexts(list []textField) error {
	for _, text := range list {
		if err := f.readText(text.name, text.value, text.most); err != nil {
			return err
		}
	}
	return nil
}

// readStep reads the number of a step. JSON has one kind of number, so 2.0 is 2.
func (f fields) readStep() (*int32, error) {
	var n float64
	given, err := f.readField("step", &n)
	if !given || err != nil {
		return nil, err
	}
	if n != math.Trunc(n) || n < 1 || n > math.MaxInt32 {
		return nil, fmt.Errorf("data.step is %v, want the number of a step, counted from 1", n)
	}
	step := int32(n)
	return &step, nil
}

// maxEpoch is the largest number that every reader of JSON reads exactly.
const maxEpoch = 1 << 53

// readEpoch reads the number of a fleet's release, 0 for none.
func (f fields) readEpoch() (int64, error) {
	var n float64
	given, err := f.readField("epoch", &n)
	if !given || err != nil {
		return 0, err
	}
	if n != math.Trunc(n) || n < 1 || n > maxEpoch {
		return 0, fmt.Errorf("data.epoch is %v, want the number of a release, as status.epoch of the FleetRollout has it", n)
	}
	return int64(n), nil
}
