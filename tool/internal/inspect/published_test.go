package inspect

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// publishedPath is the file of a process that runs.
func publishedPath(pid int) string {
	fs := procfs.Live()
	stat, err := fs.Stat(pid)
	if err != nil {
		return "/dev/shm/granary.of.nothing"
	}
	return publishedPaths(pid, fs.NumberInside(pid), stat.StartTicks)[0]
}

func TestPublishedFiguresAreThoseOfTheProcess(t *testing.T) {
	h := hold(t, "helper", never+",stats_file:true")
	target, err := openPublished(procfs.Live(), h.pid())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if live := publishedLive(t, target, h.said["live"]); live != h.said["live"] {
		t.Errorf("live is published as %d, the process says %d", live, h.said["live"])
	}
	s := mustSnapshot(t, target)
	if len(s.Metrics) != len(h.said) || len(s.Caches) == 0 || len(s.Options) == 0 {
		t.Errorf("%d figures, %d caches and %d options are published", len(s.Metrics), len(s.Caches), len(s.Options))
	}
	if _, err := target.HeapMap(); !errors.Is(err, ErrNoRights) {
		t.Errorf("the map of a published heap: %v", err)
	}
	if _, err := target.Request(context.Background(), Purge()); !errors.Is(err, ErrNoRights) {
		t.Errorf("a command to a published heap: %v", err)
	}
}

func TestTheHelperPublishesOnceASecond(t *testing.T) {
	h := hold(t, "helper", "stats_file:true")
	begin, err := os.Stat(publishedPath(h.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		now, err := os.Stat(publishedPath(h.pid()))
		if err == nil && now.ModTime().After(begin.ModTime()) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the file was not written again within ten seconds")
}

func TestTheFileGoesWithTheProcess(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF=stats_file:true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := publishedPath(cmd.Process.Pid)
	for range 400 {
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	in.Close()
	cmd.Wait()
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
}

// A file that another user wrote is ignored.
func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of two users")
	}
	h := hold(t, "wait", quiet)
	path := publishedPath(h.pid())
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := openPublished(procfs.Live(), h.pid()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file of another user: %v", err)
	}
}

// A process in another PID namespace has two numbers: the outer one finds it, its own is in the name of its published file.
func TestAProcessOfAnotherPIDNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a PID namespace")
	}
	cmd := exec.Command(holder(t), "helper")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF=stats_file:true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	h := start(t, cmd)
	target := mustOpen(t, h.pid())
	if live, _ := mustSnapshot(t, target).Value("live"); live < 10<<20 {
		t.Errorf("live is %d: the holder holds more", live)
	}
	if _, err := target.HeapMap(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := target.Request(ctx, Purge()); err != nil {
		t.Error(err)
	}
	published, err := openPublished(procfs.Live(), h.pid())
	if err != nil {
		t.Fatal(err)
	}
	defer published.Close()
	if s := mustSnapshot(t, published); len(s.Metrics) == 0 {
		t.Error("nothing is published")
	}
}

// Two processes that are number 1 in their namespaces, with one /dev/shm, publish two files.
func TestNamespacesDoNotShareAFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a PID namespace")
	}
	for _, mode := range []string{"helper", "small helper"} {
		cmd := exec.Command(holder(t), mode)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF="+never+",stats_file:true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		h := start(t, cmd)
		target, err := openPublished(procfs.Live(), h.pid())
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		defer func() { // the other one runs as well by now
			if live := publishedLive(t, target, h.said["live"]); live != h.said["live"] {
				t.Errorf("%s: live is published as %d, the process says %d", mode, live, h.said["live"])
			}
		}()
		time.Sleep(20 * time.Millisecond) // START counts hundredths of a second
	}
}

// publishedLive reads what a process publishes until it is as wanted, or for ten seconds.
func publishedLive(t *testing.T, target *Target, want uint64) (live uint64) {
	t.Helper()
	for range 200 { // the first file is of the start, when there was no heap yet
		if live, _ = mustSnapshot(t, target).Value("live"); live == want {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return live
}

func TestAnOlderLibrarysFileIsReadInItsOwnNamespaceOnly(t *testing.T) {
	if got := publishedPaths(7, 7, 90); len(got) != 2 || got[1] != "/dev/shm/granary.7" {
		t.Errorf("%q", got)
	}
	if got := publishedPaths(7, 1, 90); len(got) != 1 || got[0] != "/dev/shm/granary.1.90" {
		t.Errorf("%q", got)
	}
}
