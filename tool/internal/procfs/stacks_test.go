package procfs_test

import (
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestStacksOfThreadsAreFound(t *testing.T) {
	const threads = 64
	pid := testkit.Python(t, `
import threading, time
for _ in range(64): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)`).Pid
	time.Sleep(10 * time.Millisecond)
	regions, err := procfs.Footprint(procfs.Live(), pid)
	if err != nil {
		t.Fatal(err)
	}
	stacks := 0
	for _, r := range regions {
		if r.Kind == procfs.Stacks {
			stacks++
		}
	}
	if stacks != threads+1 {
		t.Errorf("%d stacks, want %d", stacks, threads+1)
	}
	sum, rss := uint64(0), procfs.TotalRSS(regions)
	for _, bytes := range procfs.SumByKind(regions) {
		sum += bytes
	}
	if m, err := procfs.Live().Memory(pid); err != nil || sum != rss || m.RSS != rss {
		t.Errorf("kinds sum to %d, regions to %d, smaps_rollup says %d (%v)", sum, rss, m.RSS, err)
	}
}
