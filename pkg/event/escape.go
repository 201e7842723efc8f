package event

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// escapeHeader escapes a header value as the HTTP binding of CloudEvents 1.0 (section 3.1.3.2) requires; the NATS binding refers to it. It replaces
// space, double quote, percent and every character outside of U+0021..U+007E with its percent-encoded UTF-8 bytes. So a value cannot break out of its
// header line.
func escapeHeader(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c == '"', c == '%', c > '~':
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescapeHeader is the inverse of escapeHeader. It also accepts escapes that escapeHeader would not write. It refuses broken escapes and text that is not
// UTF-8.
func unescapeHeader(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errors.New("a percent sign is not followed by two hex digits")
		}
		hi, lo := hexDigit(s[i+1]), hexDigit(s[i+2])
		if hi < 0 || lo < 0 {
			return "", errors.New("a percent sign is not followed by two hex digits")
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	if !utf8.ValidString(b.String()) {
		return "", errors.New("the value is not UTF-8")
	}
	return b.String(), nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
