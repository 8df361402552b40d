package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestMachineReadsTheFirstLineOfStat(t *testing.T) {
	root := t.TempDir()
	text := "cpu  100 25 25 4000 50 40 10 50 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
	if err := os.WriteFile(filepath.Join(root, "stat"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := FS{Root: root}.Machine()
	if err != nil || got != (Ticks{Busy: 2, Stolen: 0.5}) {
		t.Errorf("ticks %+v, %v", got, err)
	}
	if _, err := (FS{Root: t.TempDir()}).Machine(); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestTreeAndResidentOfALiveProcess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 60 & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var tree []int
	defer func() {
		for _, pid := range tree {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		_ = cmd.Wait() // it was killed
	}()
	for range 500 {
		if tree = Live().Tree(cmd.Process.Pid); len(tree) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(tree) != 2 || !slices.Contains(Live().Tree(os.Getpid()), tree[1]) {
		t.Errorf("tree %v", tree)
	}
	if rss, err := Live().Resident(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("resident %d, %v", rss, err)
	}
}
