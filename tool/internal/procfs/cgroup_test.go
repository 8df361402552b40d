package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

// world writes files below a folder; names ending in a slash are folders.
func world(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheTightestGroupCounts(t *testing.T) {
	root := world(t, map[string]string{
		"cg/a/memory.max": "1000000\n", "cg/a/memory.high": "max\n", "cg/a/memory.current": "5000\n",
		"cg/a/b/memory.max": "max\n", "cg/a/b/memory.high": "max\n", "cg/a/b/memory.current": "4000\n",
		"proc/5/cgroup": "0::/a/b\n",
	})
	mount := filepath.Join(root, "cg")
	put(t, root, "proc/5/mountinfo", "31 24 0:27 / "+mount+" rw shared:9 - cgroup2 cgroup2 rw\n")
	g, err := FS{Root: filepath.Join(root, "proc")}.Cgroup(5)
	want := Cgroup{Path: mount + "/a", Version: 2, Max: 1000000, High: Unlimited, Current: 5000}
	if err != nil || g != want {
		t.Errorf("%+v, %v; want %+v", g, err, want)
	}
}

func TestGroupOfVersionOneBelowTheTopOfItsMount(t *testing.T) {
	root := world(t, map[string]string{
		"cg/x/memory.limit_in_bytes": "9223372036854771712\n", "cg/x/memory.usage_in_bytes": "77\n",
		"proc/5/cgroup": "9:cpu,cpuacct:/\n4:memory:/docker/1/x\n",
	})
	mount := filepath.Join(root, "cg")
	put(t, root, "proc/5/mountinfo", "31 24 0:27 /docker/1 "+mount+" rw - cgroup cgroup rw,memory\n")
	g, err := FS{Root: filepath.Join(root, "proc")}.Cgroup(5)
	want := Cgroup{Path: mount + "/x", Version: 1, Max: Unlimited, High: Unlimited, Current: 77}
	if err != nil || g != want {
		t.Errorf("%+v, %v; want %+v", g, err, want)
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsOfThisProcess(t *testing.T) {
	limits, err := Live().Limits(os.Getpid())
	if err != nil || limits["Max open files"].Soft == 0 || len(limits) < 10 {
		t.Errorf("%v, %v", limits, err)
	}
}
