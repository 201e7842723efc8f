package queue

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPrincipal is longer than any name of a service account. With it subjects stay far below the limit of NATS.
const maxPrincipal = 512

const upperHex = "0123456789ABCDEF"

// isPlain reports whether a character stands for itself in a principal's token.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

// PrincipalToken encodes the name of a sender of decisions as one subject token. Letters, digits and '-' stand for
// themselves, and every other byte becomes _XX in upper-case hex. So ci-acme is ci-acme, and ci.acme is ci_2Eacme.
// [ParsePrincipal] decodes it; no two names have the same token.
func PrincipalToken(principal string) string {
	var b strings.Builder
	for _, c := range []byte(principal) {
		if isPlain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'_', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String()
}

// ParsePrincipal is the inverse of [PrincipalToken]. It refuses every other encoding of the same name.
func ParsePrincipal(token string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '_' && i+2 < len(token) {
			hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
			if c = byte(hi<<4 | lo); hi < 0 || lo < 0 || isPlain(c) {
				return "", fmt.Errorf("read principal %q: %q is no escape", token, token[i:i+3])
			}
			i += 2
		} else if !isPlain(c) {
			return "", fmt.Errorf("read principal %q: %q must be escaped", token, c)
		}
		b.WriteByte(c)
	}
	if err := validPrincipal(b.String()); err != nil {
		return "", fmt.Errorf("read principal %q: %w", token, err)
	}
	return b.String(), nil
}

func validPrincipal(name string) error {
	if name == "" || len(name) > maxPrincipal || !utf8.ValidString(name) {
		return fmt.Errorf("it must have 1 to %d bytes of UTF-8", maxPrincipal)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("it must not have control characters")
	}
	return nil
}
