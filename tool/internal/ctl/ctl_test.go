package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func call(args ...string) (string, string, int) {
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, []cli.Command{Command}, append([]string{"ctl"}, args...))
	return out.String(), errs.String(), code
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "give the PID or the name of a process and one of purge, flush, reset, set, pageout",
		"1":                     "give the PID or the name of a process and one of purge, flush, reset, set, pageout",
		"x purge":               `there is no process called "x"`,
		"1 clean":               `there is no request "clean": choose from purge, flush, reset, set, pageout`,
		"1 purge now":           `purge takes no further words, not "now"`,
		"1 set":                 "name the option to set: NAME:VALUE",
		"1 purge --now":         "there is no option --now",
		"1 pageout now":         `pageout takes no further words, not "now"`,
		"1 pageout --older 1ms": "--older must be 1s to 720h",
		"1 pageout --rate 5":    `--rate "5" must be a size from 1MiB to 1TiB`,
		"1 pageout --older 10":  "is no duration",
	} {
		if _, errs, code := call(strings.Fields(args)...); code != cli.CodeUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d, said %q", args, code, errs)
		}
	}
	if _, errs, code := call("1073741824", "purge"); code != 1 || !strings.Contains(errs, "there is no process 1073741824") {
		t.Errorf("code %d, said %q", code, errs)
	}
}

// python runs a program that holds 64 MiB of garbage, with a background thread or without one.
func python(t *testing.T, conf string) int {
	t.Helper()
	return testkit.Python(t, `
import time
held = [bytes(500) for _ in range(200000)]
del held
print("ready", flush=True)
time.sleep(60)`, "LD_PRELOAD="+testkit.Library(t), "PYTHONMALLOC=malloc", "GRANARY_CONF="+conf).Pid
}

func TestPurgeSetAndResetOfALiveProcess(t *testing.T) {
	pid := python(t, "dirty_decay_ms:-1")
	out, errs, code := call(strconv.Itoa(pid), "purge", "--json")
	var o Outcome
	if err := json.Unmarshal([]byte(out), &o); err != nil || code != 0 {
		t.Fatalf("code %d, said %q: %v", code, errs, err)
	}
	if o.Bytes < 50<<20 || o.After+50<<20 > o.Before {
		t.Errorf("%+v", o)
	}
	for _, c := range []struct{ words, want string }{
		{"set dirty_decay_ms:250 check_at_exit:false", " set dirty_decay_ms:250, check_at_exit:false ("},
		{"reset", " reset its peaks ("},
		{"flush", " of free objects from the caches to the slabs ("},
		{"purge", " purged "},
	} {
		out, errs, code := call(append([]string{strconv.Itoa(pid)}, strings.Fields(c.words)...)...)
		if code != 0 || !strings.HasPrefix(out, "process "+strconv.Itoa(pid)+" ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: code %d, printed %q, said %q", c.words, code, out, errs)
		}
	}
	target, err := inspect.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	s, err := target.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, option := range s.Options {
		got[option.Name] = option.Value
	}
	if got["dirty_decay_ms"] != 250 || got["check_at_exit"] != 0 {
		t.Errorf("options are %v", got)
	}
}

func TestResetAlsoResetsThePeakOfRSS(t *testing.T) {
	pid := python(t, "dirty_decay_ms:-1")
	if _, errs, code := call(strconv.Itoa(pid), "purge"); code != 0 {
		t.Fatalf("code %d, said %q", code, errs)
	}
	before, err := procfs.Live().Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := call(strconv.Itoa(pid), "reset"); code != 0 {
		t.Fatalf("code %d, said %q", code, errs)
	}
	after, err := procfs.Live().Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	if before.Peak < before.RSS+50<<20 || after.Peak > before.RSS+10<<20 {
		t.Errorf("RSS was %d with a peak of %d, then %d with a peak of %d", before.RSS, before.Peak, after.RSS, after.Peak)
	}
	target, err := inspect.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	s, err := target.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	live, _ := s.Value("live")
	if peak, _ := s.Value("live_peak"); peak < live || peak > live+10<<20 {
		t.Errorf("%d bytes live, with a peak of %d after the reset", live, peak)
	}
}

func TestWrongOptionsChangeNothing(t *testing.T) {
	pid := strconv.Itoa(python(t, ""))
	for _, words := range []string{"dirty_dekay_ms:1", "dirty_decay_ms:never", "dirty_decay_ms:-7", "abort_conf:true"} {
		out, errs, code := call(pid, "set", words)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d, printed %q, said %q", words, code, out, errs)
		}
		t.Log(strings.TrimSpace(errs))
	}
}

func TestAStoppedProcessDoesNotAnswerUntilItGoesOn(t *testing.T) {
	pid := python(t, "dirty_decay_ms:-1")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, errs, code := call(strconv.Itoa(pid), "purge", "--timeout", "100ms")
	if code != cli.CodeFailed || !strings.Contains(errs, "stopped") {
		t.Errorf("code %d, said %q", code, errs)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// The request made before is served now, without another request.
	if after := fallsTo(t, pid, 60<<20); after > 60<<20 {
		t.Errorf("ten seconds after it went on, RSS is %d", after)
	}
	if out, errs, code := call(strconv.Itoa(pid), "purge"); code != 0 || !strings.Contains(out, "purged") {
		t.Errorf("when it goes on: code %d, printed %q, said %q", code, out, errs)
	}
}

// fallsTo waits for RSS to be below a bound, at most ten seconds; it returns the last RSS.
func fallsTo(t *testing.T, pid int, bound uint64) uint64 {
	t.Helper()
	for try := 0; ; try++ {
		memory, err := procfs.Live().Memory(pid)
		if err != nil {
			t.Fatal(err)
		}
		if memory.RSS <= bound || try == 500 {
			return memory.RSS
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestWhatIsReportedOfEachRequest(t *testing.T) {
	o := Outcome{PID: 812, Bytes: 5 << 20, Before: 100 << 20, After: 95 << 20, Words: []string{"dirty_decay_ms:5", "check_at_exit:false"}}
	var out bytes.Buffer
	for _, v := range verbs {
		if v.acts != nil {
			continue
		}
		out.WriteString("process 812 " + v.done(o) + "\n")
	}
	o.Kept = "open /proc/812/clear_refs: permission denied"
	if v, err := find("reset", nil); err == nil {
		out.WriteString("process 812 " + v.done(o) + "\n")
	}
	testkit.Check(t, "testdata/said.golden", out.Bytes())
}
