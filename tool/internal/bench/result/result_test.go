package result

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestLoadAveragesAreInWords(t *testing.T) {
	for line, want := range map[string]string{
		"0.10 0.52 1.75 2/345 6789": "0.10 over 1 minute, 0.52 over 5, 1.75 over 15", "": "unknown", "0.1": "unknown",
	} {
		if got := (Machine{LoadBefore: line}).LoadAverages(); got != want {
			t.Errorf("%q: %s", line, got)
		}
	}
}

func TestSampleKeepsOrderAndDropsWhatIsNoNumber(t *testing.T) {
	var s Sample
	s.Set("b", "m", 1)
	s.Set("a", "m", 2)
	s.Set("b", "m", 3)
	s.Set("a", "n", math.NaN())
	s.Set("a", "o", math.Inf(1))
	s.Trace(Series{Phase: "a", Points: [][2]float64{{0, 1}}})
	var r Results
	r.Add("x", 4, s)
	want := []Observation{{"x", 4, "b", "m", 3}, {"x", 4, "a", "m", 2}}
	if !reflect.DeepEqual(r.Observations, want) {
		t.Errorf("observations %+v", r.Observations)
	}
	if r.Series[0].Allocator != "x" || r.Series[0].Round != 4 {
		t.Errorf("series %+v", r.Series)
	}
	if _, ok := s.Get("a", "n"); ok {
		t.Error("NaN is recorded")
	}
}

func TestWriteJSONIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "r.json")
	r := Results{Schema: Schema, Scenario: "x", Observations: []Observation{{"c", 0, "p", "m", 1.5}}}
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Results
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestFactsOfRecordedMachine(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU: fast\n", "proc/sys/kernel/osrelease": "6.1.0\n", "proc/loadavg": "0.1 0.2 0.3 1/2 3\n",
		"proc/self/cgroup": "4:memory:/own\n3:cpu,cpuacct:/hidden\n0::/\n", "sys/fs/cgroup/memory/own/memory.limit_in_bytes": "1048576\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		"etc/os-release": "NAME=x\nPRETTY_NAME=\"Debian 12\"\n", "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
	} {
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	m := Facts(root)
	if m.CPU != "A CPU: fast" || m.Kernel != "6.1.0" || m.System != "Debian 12" || m.HugePages != "madvise" || m.Governor != "" {
		t.Errorf("facts %+v", m)
	}
	if m.MemoryLimit != "1048576" || m.CPULimit != "150000 100000" {
		t.Errorf("limits %q and %q", m.MemoryLimit, m.CPULimit)
	}
	for name, want := range map[string]string{"max 100000": "", "9223372036854771712": "", "2048": "2048", "": ""} {
		if got := unlimited(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
