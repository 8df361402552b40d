package inspect

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

func TestTheWordsAreThoseOfTheLibrary(t *testing.T) {
	text, err := os.ReadFile("../../../core/src/config/words.def")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^WORD\((\w+), (\w+), (\d+)\)`).FindAllStringSubmatch(string(text), -1)
	known := 0
	for _, row := range rows {
		value, err := strconv.ParseInt(row[3], 10, 64)
		if got := (Option{Name: row[1], Type: "int"}).Text(value); err != nil || got != row[2] {
			t.Errorf("%s at %s is %q, not %q", row[1], row[3], got, row[2])
		}
	}
	for _, list := range words {
		known += len(list)
	}
	if len(rows) == 0 || known != len(rows) {
		t.Errorf("%d words, the library has %d", known, len(rows))
	}
	if got := (Option{Name: "cache", Type: "bool"}).Text(1); got != "true" {
		t.Errorf("a switch that is on is %q", got)
	}
}
