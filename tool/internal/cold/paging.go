package cold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// Paging selects the memory to page out.
type Paging struct {
	Older time.Duration // memory without an access for so long
	Rate  uint64        // at most so many bytes a second
	Keep  bool          // go on until the context ends
	// Any is for processes under any allocator: all private anonymous memory may be paged out, as other allocators do
	// not tell which of it is live.
	Any bool
}

// An Outcome is the result of paging out. Sizes are bytes.
type Outcome struct {
	PID     int     `json:"pid"`
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"`
	Paged
	Before Usage `json:"before"`
	After  Usage `json:"after"`
	// MajorFaults is the kernel's count of reads from swap or files that the process waited for.
	MajorFaults uint64 `json:"major_faults"`
}

// Usage has the kernel's figures of a process.
type Usage struct {
	RSS    uint64 `json:"rss_bytes"`
	Swap   uint64 `json:"swap_bytes"`
	faults uint64
}

// PageOut pages out cold memory of process pid. report is called after each interval in which something happened.
func (p Paging) PageOut(ctx context.Context, proc procfs.FS, pid int, report func(Step) error) (o Outcome, err error) {
	if _, err := proc.Stat(pid); err != nil {
		return o, proc.Explain(pid, err)
	}
	read := func() (candidates, error) { return ofProcess(proc, pid) }
	if !p.Any {
		subject, err := inspect.OpenSubject(proc, fmt.Sprint(pid))
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, subject.Close()) }()
		read = func() (candidates, error) {
			heap, err := subject.HeapMap()
			if err != nil {
				return candidates{}, err
			}
			return ofHeap(heap), nil
		}
	}
	if err := NeedSwap(proc); err != nil {
		return o, err
	}
	source, err := Open(proc, pid)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if o.Before, err = usage(proc, pid); err != nil {
		return o, err
	}
	clock := realClock{time.Now()}
	pager := &pager{
		source: source, read: read, swap: proc.Swap, clock: clock,
		older: p.Older, pace: pace{limit: p.Rate, now: p.Rate}, keep: p.Keep, report: report,
	}
	o.PID, o.Source = pid, source.Name()
	o.Paged, err = pager.run(ctx)
	o.Seconds = seconds(clock.now())
	if p.Keep && !proc.Alive(pid) {
		return o, nil
	}
	if err != nil {
		return o, proc.Explain(pid, err)
	}
	o.After, err = usage(proc, pid)
	o.MajorFaults = o.After.faults - o.Before.faults
	return o, err
}

// NeedSwap is an error on a machine without swap.
func NeedSwap(proc procfs.FS) error {
	swap, err := proc.Swap()
	if err != nil {
		return err
	}
	if swap.Total == 0 {
		return errors.New("this machine has no swap, so cold memory has nowhere to go: add a zram device or a swap file (docs/guides/cold-memory.md)")
	}
	return nil
}

func usage(proc procfs.FS, pid int) (u Usage, err error) {
	memory, err := proc.Memory(pid)
	if err != nil {
		return u, proc.Explain(pid, err)
	}
	if u.Swap, _, err = kernelFigures(proc, pid); err != nil {
		return u, proc.Explain(pid, err)
	}
	stat, err := proc.Stat(pid)
	if err != nil {
		return u, proc.Explain(pid, err)
	}
	u.RSS, u.faults = memory.RSS, stat.MajorFaults
	return u, nil
}

// Write prints one line.
func (s Step) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%8v: paged out %s, returned %s; out now %s, at most %s/s\n",
		s.After.Round(100*time.Millisecond), term.Bytes(s.Paged), term.Bytes(s.Returned), term.Bytes(s.Out), term.Bytes(s.Rate))
	return err
}

// Write prints the sums.
func (o Outcome) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "process %d: paged out %s in %.1f s by %s, %s returned; RSS: %s before, %s after; in swap: %s before, %s after; %s\n",
		o.PID, term.Bytes(o.Out), o.Seconds, o.Source, term.Bytes(o.Returned), term.Bytes(o.Before.RSS), term.Bytes(o.After.RSS),
		term.Bytes(o.Before.Swap), term.Bytes(o.After.Swap), term.Counted(int(o.MajorFaults), "major fault"))
	return err
}
