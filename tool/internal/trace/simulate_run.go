package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"golang.org/x/sys/unix"
)

// A Machine is what the simulated program runs on.
type Machine struct {
	CPUs      int    `json:"cpus"`
	Nodes     int    `json:"nodes"`
	Memory    uint64 `json:"memory"` // bytes; 0: no limit
	HugePages bool   `json:"huge_pages"`
}

// A Result is what one setting leads to. Bytes are of the heap and its metadata.
type Result struct {
	Setting     string `json:"setting"` // as in GRANARY_CONF; empty: the defaults
	Classes     string `json:"classes"` // size classes: fine, which are the library's, or coarse
	PeakRSS     uint64 `json:"peak_rss"`
	MeanRSS     uint64 `json:"mean_rss"`
	EndRSS      uint64 `json:"end_rss"`
	LivePeak    uint64 `json:"live_peak"` // requested
	LiveEnd     uint64 `json:"live_end"`
	Allocations uint64 `json:"allocations"`
	Frees       uint64 `json:"frees"`
	Misses      uint64 `json:"misses"`    // allocations that no cache served
	Overflows   uint64 `json:"overflows"` // frees that found the cache full
	Refused     uint64 `json:"refused"`
	Faults      uint64 `json:"faults"`
	HugeFaults  uint64 `json:"huge_faults"`
	Purged      uint64 `json:"purged_pages"`
	Refaulted   uint64 `json:"refaulted_pages"`
	Mmap        uint64 `json:"mmap"`
	Munmap      uint64 `json:"munmap"`
	Mprotect    uint64 `json:"mprotect"`
	Madvise     uint64 `json:"madvise"`
	Mremap      uint64 `json:"mremap"`
	Membarrier  uint64 `json:"membarrier"`
	Placed      uint64 `json:"placed_bytes"`
	Remote      uint64 `json:"remote_bytes"` // allocated in pages of another node than the thread's
	// Curve has rows of nanoseconds, resident bytes, live bytes.
	Curve [][3]uint64 `json:"curve"`
}

// Calls is the number of system calls.
func (r Result) Calls() uint64 {
	return r.Mmap + r.Munmap + r.Mprotect + r.Madvise + r.Mremap + r.Membarrier
}

// Fragmentation is the peak of RSS for each byte requested at its peak.
func (r Result) Fragmentation() float64 { return float64(r.PeakRSS) / float64(max(1, r.LivePeak)) }

// A simulator runs the programs that make the calls of a trace in the library's own layers.
type simulator struct {
	trace   *Trace
	machine Machine
	length  time.Duration // of the trace, once it was simulated
}

// mostAtATime bounds the simulations that read the trace together: it is unpacked once for so many.
const mostAtATime = 16

// all simulates each variant.
func (s *simulator) all(ctx context.Context, variants []variant) ([]Result, error) {
	var results []Result
	for some := range slices.Chunk(variants, mostAtATime) {
		r, err := s.some(ctx, some)
		if err != nil {
			return nil, err
		}
		results = append(results, r...)
	}
	return results, nil
}

// some simulates the variants at once, while it unpacks the trace for them.
func (s *simulator) some(ctx context.Context, variants []variant) ([]Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results, errs := make([]Result, len(variants)), make([]error, len(variants))
	var out broadcast
	var running sync.WaitGroup
	for i, v := range variants {
		words, to, err := sequencePipe()
		if err != nil {
			return nil, err
		}
		out = append(out, to)
		running.Go(func() {
			defer words.Close() // so that the writer ends when the program has
			results[i], errs[i] = s.one(ctx, v, words)
			if errs[i] != nil {
				stop()
			}
		})
	}
	length, unread := WriteSequence(out, s.trace)
	for _, to := range out {
		to.Close()
	}
	running.Wait()
	s.length = length
	if unread != nil && !errors.Is(unread, unix.EPIPE) { // else a program has said why it ended
		return nil, unread
	}
	return results, cmp.Or(first(errs), unread)
}

// sequencePipe is a pipe that holds what a simulation reads in some milliseconds, so that it seldom waits.
func sequencePipe() (from, to *os.File, err error) {
	if from, to, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	_, _ = unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 4*sequenceBatch) // else it has its usual size
	return from, to, nil
}

// A broadcast writes the same to each program.
type broadcast []*os.File

// Write fails if one of the programs has ended.
func (b broadcast) Write(data []byte) (int, error) {
	for _, to := range b {
		if _, err := to.Write(data); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// first is the error that ended the others.
func first(errs []error) error {
	var found error
	for _, err := range errs {
		if err != nil && (found == nil || strings.Contains(found.Error(), "killed")) {
			found = err
		}
	}
	return found
}

func (s *simulator) one(ctx context.Context, v variant, words *os.File) (Result, error) {
	cmd := exec.CommandContext(ctx, v.program, "-")
	cmd.Stdin = words
	// Ready lists save time, and no memory: without them, a miss is a miss.
	conf := strings.TrimSuffix("abort_conf:true,ready_lists:never,"+v.setting, ",")
	cmd.Env = append(environment(), "GRANARY_CONF="+conf, fmt.Sprintf("SIMULATE_CPUS=%d", s.machine.CPUs),
		fmt.Sprintf("SIMULATE_NODES=%d", s.machine.Nodes), fmt.Sprintf("SIMULATE_MEMORY=%d", s.machine.Memory))
	if !s.machine.HugePages {
		cmd.Env = append(cmd.Env, "SIMULATE_HUGE_PAGES=0")
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); line != "" {
			return Result{}, refused(v.setting, line)
		}
		return Result{}, fmt.Errorf("simulate %s: %w", v.setting, err)
	}
	r := Result{}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return Result{}, fmt.Errorf("read the results of %s: %w", v.program, err)
	}
	r.Setting, r.Classes = v.setting, v.classes
	return r, nil
}

// refused is the simulator's message as an error. The library's messages about settings are for a process that goes on.
func refused(setting, line string) error {
	reason, wrong := strings.CutPrefix(line, "granary: GRANARY_CONF: ")
	if !wrong {
		return fmt.Errorf("setting %s: %s", setting, line)
	}
	return cli.Usagef("--set: %s", strings.TrimSuffix(reason, "; the option keeps its value"))
}

// environment is the command's own, without what another allocator or its settings would bring.
func environment() []string {
	var out []string
	for _, row := range os.Environ() {
		name, _, _ := strings.Cut(row, "=")
		if name != "LD_PRELOAD" && name != "MALLOC_CONF" && !strings.HasPrefix(name, "TCMALLOC_") && !strings.HasPrefix(name, "GRANARY_") {
			out = append(out, row)
		}
	}
	return out
}
