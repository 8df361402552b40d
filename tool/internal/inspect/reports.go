package inspect

import (
	"strings"
	"unicode"
)

// Reports returns what the library wrote to stderr until now: reports of misuse, and warnings about options.
func (t *Target) Reports() (string, error) {
	if _, ok := t.layout.cellNames["reports.bytes"]; !ok {
		return "", nil // an older library
	}
	bytes, err := t.figure("reports.bytes")
	if err != nil || bytes == 0 {
		return "", err
	}
	address, room, err := t.place("reports.text")
	if err != nil {
		return "", err
	}
	text, err := readAt(t.memory, address, int(min(bytes, uint64(room.width))))
	if err != nil {
		return "", err
	}
	printable := func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}
	return strings.Map(printable, strings.TrimRight(string(text), "\x00\n")), nil
}
