package runner

import (
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A noise measures the rest of the machine during a visit: CPU time that neither this process
// nor a child of its used, and time that the hypervisor gave to others.
type noise struct {
	proc   procfs.FS
	start  time.Time
	before procfs.Ticks
	own    float64
	held   float64 // seconds for which a CPU limit had stopped this group before the visit
	ok     bool
}

func startNoise(proc procfs.FS) noise {
	ticks, err := proc.Machine()
	return noise{proc: proc, start: time.Now(), before: ticks, own: ownCPU(), held: measure.Throttled(proc), ok: err == nil}
}

// stop must come after the visit's processes were waited for: only then their time is known.
func (n noise) stop() result.Run {
	seconds := time.Since(n.start).Seconds()
	r := result.Run{Started: n.start, Seconds: seconds}
	load, _ := os.ReadFile(n.proc.Root + "/loadavg") // left empty when it cannot be read
	r.LoadAfter = strings.TrimSpace(string(load))
	after, err := n.proc.Machine()
	if err != nil || !n.ok || seconds <= 0 {
		return r
	}
	r.OwnCPU = ownCPU() - n.own
	r.OthersCPU = max(0, after.Busy-n.before.Busy-r.OwnCPU)
	r.Throttled = measure.Throttled(n.proc) - n.held
	r.Stolen = after.Stolen - n.before.Stolen
	return r
}

// ownCPU is the CPU time of this process and of the children it waited for.
func ownCPU() float64 {
	total := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			total += seconds(usage.Utime) + seconds(usage.Stime)
		}
	}
	return total
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
