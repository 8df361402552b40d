package profile

import (
	"debug/elf"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func frameTable(t testing.TB, path string) *FrameTable {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	table, err := ReadFrames(f)
	if err != nil {
		t.Skipf("%s: %v", path, err)
	}
	return table
}

// readelf decodes the same information: every row of a large program must be alike.
func TestRulesAreThoseOfReadelf(t *testing.T) {
	program, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("there is no readelf")
	}
	rules := frameTable(t, program)
	out, err := exec.Command(program, "--debug-dump=frames-interp", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^([0-9a-f]{16}) (rsp|rbp)\+(\d+) +(.*)$`)
	registers := map[string]uint64{"rsp": 7, "rbp": 6}
	compared := 0
	for line := range strings.Lines(string(out)) {
		m := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		address, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if address == 0 {
			continue // the entries that all functions share
		}
		rule, ok := rules.Rule(address)
		if !ok {
			t.Errorf("%#x: no rule, readelf says %s+%s", address, m[2], m[3])
			continue
		}
		if rule.Register != registers[m[2]] || strconv.FormatInt(rule.Offset, 10) != m[3] || rule.Saved[rule.Return] != -8 {
			t.Errorf("%#x: %+v, readelf says %s+%s %s", address, rule, m[2], m[3], m[4])
		}
		compared++
	}
	if compared < 1000 {
		t.Skipf("readelf told of %d rows", compared) // of another machine
	}
}

func FuzzProgram(f *testing.F) {
	f.Add([]byte{0x0c, 7, 8, 0x90, 1, 0x41, 0x0e, 16, 0x0a, 0x0b}, uint64(4))
	f.Fuzz(func(_ *testing.T, program []byte, address uint64) {
		c := &frameCommon{codeAlign: 1, dataAlign: -8, program: program}
		table := &FrameTable{functions: []frameFunction{{0, 1 << 20, c, program}}}
		table.Rule(address)
	})
}
