package inspect

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func request(t *testing.T, target *Target, c Command, patience time.Duration) (Ack, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return target.Request(ctx, c)
}

// never keeps the background thread asleep: only a request can wake it.
const never = "dirty_decay_ms:-1"

func TestPurgeWakesAHelperThatSleeps(t *testing.T) {
	h := hold(t, "helper", never)
	target := mustOpen(t, h.pid())
	before := mustSnapshot(t, target)
	if helper, _ := before.Value("background_thread"); helper != 1 {
		t.Fatal("the holder has no background thread")
	}
	dirty, _ := before.Value("dirty")
	if dirty < 32<<20 {
		t.Fatalf("the holder has only %d bytes dirty", dirty)
	}
	ack, err := request(t, target, Purge(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if ack.Bytes < dirty {
		t.Errorf("%d bytes went back of %d dirty ones", ack.Bytes, dirty)
	}
	t.Logf("purged %d MiB in %v", ack.Bytes>>20, ack.After)
	after := mustSnapshot(t, target)
	// A heap that grew has two trackers faulted in ahead of need.
	if left, _ := after.Value("dirty"); left > 4<<20 {
		t.Errorf("%d bytes are still dirty", left)
	}
}

func TestASlowPathActsWhereThereIsNoHelper(t *testing.T) {
	h := hold(t, "storm", quiet)
	if _, err := request(t, mustOpen(t, h.pid()), Flush(), 20*time.Second); err != nil {
		t.Error(err)
	}
}

func TestOptionsChangeInTheProcess(t *testing.T) {
	h := hold(t, "helper", never)
	target := mustOpen(t, h.pid())
	if _, err := request(t, target, Set("dirty_decay_ms:777"), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, o := range mustSnapshot(t, target).Options {
		if o.Name == "dirty_decay_ms" && (o.Value != 777 || o.Source != "the running program") {
			t.Errorf("after it was set to 777: %+v", o)
		}
	}
	for _, wrong := range []string{"abort_conf:true", "no_such:1", "dirty_decay_ms:-5", "dirty_decay_ms", strings.Repeat("dirty_decay_ms:1,", 60) + "dirty_decay_ms:1"} {
		if _, err := request(t, target, Set(wrong), time.Second); !errors.Is(err, ErrReadOnly) {
			t.Errorf("set %s: %v", wrong, err)
		}
	}
}

func TestResetLetsPeaksStartAgain(t *testing.T) {
	h := hold(t, "helper", never)
	target := mustOpen(t, h.pid())
	if _, err := request(t, target, Reset(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s := mustSnapshot(t, target)
	peak, _ := s.Value("used_spans_peak")
	if used, _ := s.Value("used_spans"); used != peak {
		t.Errorf("the peak is %d after a reset at %d", peak, used)
	}
}

func TestAProcessInANamespaceIsReadAndSteered(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("it takes root and unshare to make namespaces")
	}
	apart := []string{"--pid", "--fork", "--mount", "--mount-proc"}
	if out, err := exec.Command(unshare, append(apart, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces can be made here: %s", out)
	}
	cmd := exec.Command(unshare, append(apart, "env", "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF="+never, holder(t), "helper")...)
	h := start(t, cmd)
	children, err := exec.Command("pgrep", "-P", itoa(h.pid())).Output()
	if err != nil {
		t.Fatal(err)
	}
	target := mustOpen(t, atoi(t, strings.TrimSpace(string(children))))
	if live, _ := mustSnapshot(t, target).Value("live"); live == 0 {
		t.Error("nothing lives in the process")
	}
	if _, err := request(t, target, Purge(), 10*time.Second); err != nil {
		t.Error(err)
	}
}

func TestAStoppedProcessAnswersLater(t *testing.T) {
	h := hold(t, "stop-helper", never)
	waitForState(t, h.pid(), "T")
	target := mustOpen(t, h.pid())
	_, err := request(t, target, Purge(), 50*time.Millisecond)
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("a stopped process: %v", err)
	}
	syscall.Kill(h.pid(), syscall.SIGCONT)
	if _, err := request(t, target, Purge(), 10*time.Second); err != nil {
		t.Error(err)
	}
}
