package term

import (
	"bytes"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1536), "1.5 KiB"}, {Bytes(5 << 30), "5.0 GiB"},
		{Signed(-2048), "-2.0 KiB"}, {Signed(0), "+0 B"}, {Count(1234567), "1,234,567"},
		{Percent(1, 8), "12.5 %"}, {Percent(1, 0), "-"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTableAlignsAndCuts(t *testing.T) {
	var out bytes.Buffer
	Table{Header: []string{" PID", "COMMAND"}, Rows: [][]string{{"1", "a long command"}, {"234", "b"}}}.Write(&out, 12)
	if want := "PID  COMMAND\n  1  a long \n234  b\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
