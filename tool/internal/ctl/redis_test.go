package ctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// flushed fills a Redis under these options, has it forget everything, and waits until it has. The
// MiB are 64, or those of the environment variable GRANARY_FLUSH_MIB.
func flushed(t *testing.T, conf string) (pid int, start, full uint64) {
	t.Helper()
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("there is no redis-cli")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(redis, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--enable-debug-command", "yes")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t), "GRANARY_CONF="+conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	ask := func(words ...string) string {
		for range 500 {
			out, err := exec.Command("redis-cli", append([]string{"-s", socket}, words...)...).CombinedOutput()
			if err == nil && !strings.Contains(string(out), "refused") {
				return string(out)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("redis-cli %v had no answer", words)
		return ""
	}
	rss := func() uint64 {
		memory, err := procfs.Live().Memory(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return memory.RSS
	}
	ask("ping")
	ask("info", "memory") // the memory that it needs to answer exists from the start
	start = rss()
	mib := 64
	if n, err := strconv.Atoi(os.Getenv("GRANARY_FLUSH_MIB")); err == nil {
		mib = n
	}
	ask("debug", "populate", strconv.Itoa(mib*1000), "k", "1000")
	full = rss()
	ask("flushall", "async") // Redis itself gives memory back after a synchronous one
	for range 6000 {
		_, rest, _ := strings.Cut(ask("info", "memory"), "used_memory:")
		if used, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil && used < 8<<20 {
			return cmd.Process.Pid, start, full
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("Redis did not forget its keys")
	return 0, 0, 0
}

// near is the allowed RSS after everything was freed: a tenth above the start.
func near(start uint64) uint64 { return start + start/10 }

func TestAFlushedRedisIsSmallAgainByItself(t *testing.T) {
	pid, start, full := flushed(t, "")
	begin := time.Now()
	after := fallsTo(t, pid, near(start))
	t.Logf("RSS was %d at the start, %d full, %d %v after it was flushed", start, full, after, time.Since(begin).Round(time.Millisecond))
	if after > near(start) {
		t.Errorf("RSS stays at %d; it was %d at the start", after, start)
	}
}

func TestPurgeMakesAFlushedRedisSmallAgain(t *testing.T) {
	pid, start, full := flushed(t, "dirty_decay_ms:3600000")
	before, err := procfs.Live().Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, errs, code := call(strconv.Itoa(pid), "purge", "--timeout", "1m"); code != 0 {
		t.Fatalf("code %d, said %q", code, errs)
	}
	took := time.Since(begin)
	after, err := procfs.Live().Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("RSS was %d at the start, %d full, %d flushed, %d after a purge of %v", start, full, before.RSS, after.RSS, took.Round(time.Millisecond))
	if before.RSS < full/2 || after.RSS > near(start) {
		t.Errorf("RSS was %d at the start, %d before the purge, %d after it", start, before.RSS, after.RSS)
	}
}
