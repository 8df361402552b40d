package term

import (
	"bytes"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1536), "1.5 KiB"}, {Bytes(5 << 30), "5.0 GiB"},
		{Signed(-2048), "-2.0 KiB"}, {Signed(0), "+0 B"}, {Count(1234567), "1,234,567"},
		{Some(0, "note"), "no notes"}, {Some(1, "note"), "1 note"}, {Some(1200, "note"), "1,200 notes"},
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

func TestANarrowTableDropsSpareColumnsAndFoldsTheLast(t *testing.T) {
	table := Table{Header: []string{"NAME", " SIZE", "SPARE", "MEANING"}, Spare: []int{2}, Fold: true,
		Rows: [][]string{{"live", "12", "yes", "bytes of live objects and blocks"}, {"b", "1,234", "no", "short"}}}
	for width, want := range map[int]string{
		0:  "NAME   SIZE  SPARE  MEANING\nlive     12  yes    bytes of live objects and blocks\nb     1,234  no     short\n",
		52: "NAME   SIZE  SPARE  MEANING\nlive     12  yes    bytes of live objects and blocks\nb     1,234  no     short\n",
		42: "NAME   SIZE  MEANING\nlive     12  bytes of live objects and\n             blocks\nb     1,234  short\n",
		32: "NAME   SIZE  MEANING\nlive     12  bytes of live\n             objects and blocks\nb     1,234  short\n",
	} {
		var out bytes.Buffer
		table.Write(&out, width)
		if out.String() != want {
			t.Errorf("%d columns: got\n%swant\n%s", width, out.String(), want)
		}
	}
}

// Where a wide column had to go as well, the narrow ones before it come back.
func TestANarrowTableKeepsTheSpareColumnsThatFit(t *testing.T) {
	table := Table{Header: []string{"NAME", "HOW", "PATH", "COMMAND"}, Spare: []int{1, 2},
		Rows: [][]string{{"redis", "linked", "/usr/local/bin/redis-server", "redis-server *:6379"}}}
	for width, want := range map[int]string{
		40: "NAME   HOW     COMMAND\nredis  linked  redis-server *:6379\n",
		28: "NAME   COMMAND\nredis  redis-server *:6379\n",
	} {
		var out bytes.Buffer
		table.Write(&out, width)
		if out.String() != want {
			t.Errorf("%d columns: got\n%swant\n%s", width, out.String(), want)
		}
	}
}

func TestMeansAreRounded(t *testing.T) {
	for n, want := range map[float64]string{2.3589: "2.4", 2.34: "2.3", 0.04: "0.0", 48: "48.0", 4120.44: "4,120.4", -2.36: "-2.4",
		1048576: "1,048,576", 2358908.6: "2,358,909"} {
		if got := Mean(n); got != want {
			t.Errorf("%g is %q, expected %q", n, got, want)
		}
	}
}
