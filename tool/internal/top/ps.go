package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A Process is a row of the list. Sizes are bytes.
type Process struct {
	PID       int             `json:"pid"`
	UID       int             `json:"uid"`
	Command   string          `json:"command"`
	Program   string          `json:"program"` // the base name of the command's first word
	Allocator inspect.Running `json:"allocator"`
	RSS       uint64          `json:"rss_bytes"`
	PSS       uint64          `json:"pss_bytes"`
	// Heap is the resident part of the heap. For other allocators than Granary it is the anonymous memory
	// without stacks, which contains their heaps.
	Heap uint64 `json:"heap_bytes"`
	// Live and Fragmentation are Granary's figures; 0 for other allocators.
	Live          uint64  `json:"live_bytes"`
	Fragmentation float64 `json:"fragmentation_ratio"`
}

// Unreadable is a process that could not be read.
type Unreadable struct {
	PID    int    `json:"pid"`
	Reason string `json:"reason"`
}

// List is the result of Read.
type List struct {
	Processes  []Process    `json:"processes"`
	Unreadable []Unreadable `json:"unreadable"`
}

// workers read processes at the same time.
const workers = 4

// Read reads the processes pids, or all processes if pids is empty. Kernel threads and processes that
// end meanwhile are left out unless pids names them.
func Read(ctx context.Context, proc procfs.FS, pids []int) (List, error) {
	named := len(pids) > 0
	if !named {
		var err error
		if pids, err = proc.PIDs(); err != nil {
			return List{}, err
		}
	}
	type answer struct {
		process Process
		err     error
	}
	answers := make([]answer, len(pids))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(pids) && ctx.Err() == nil; i += workers {
				answers[i].process, answers[i].err = One(proc, pids[i])
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return List{}, fmt.Errorf("interrupted: %w", err)
	}
	out := List{Processes: []Process{}, Unreadable: []Unreadable{}}
	for i, a := range answers {
		switch {
		case a.err == nil:
			out.Processes = append(out.Processes, a.process)
		case named || !ended(a.err):
			out.Unreadable = append(out.Unreadable, Unreadable{pids[i], proc.Explain(pids[i], a.err).Error()})
		}
	}
	return out, nil
}

func ended(err error) bool { return procfs.Gone(err) || errors.Is(err, procfs.ErrNoMemory) }

// One reads one process.
func One(proc procfs.FS, pid int) (Process, error) {
	running, err := inspect.AllocatorOf(proc, pid)
	if err != nil {
		return Process{}, err
	}
	regions, err := procfs.Footprint(proc, pid)
	if err != nil {
		return Process{}, err
	}
	p := Process{PID: pid, Allocator: running, UID: -1, RSS: procfs.TotalRSS(regions), Command: command(proc, pid)}
	for _, r := range regions {
		p.PSS += r.PSS
	}
	sum := procfs.SumByKind(regions)
	p.Heap = sum[procfs.Heap] + sum[procfs.Anonymous]
	p.Program = program(p.Command)
	if s := ownFigures(running, pid); s != nil { // blocks may not be resident: never touched, or in swap
		p.Live, _ = s.Value("live")
		p.Fragmentation = s.Fragmentation()
		p.Heap, p.Allocator.Version = min(s.HeapBytes(), p.Heap+sum[procfs.Data]), s.Version
	}
	if status, err := proc.Status(pid); err == nil {
		if uid := strings.Fields(status["Uid"]); len(uid) > 0 {
			p.UID, _ = strconv.Atoi(uid[0]) // the kernel writes a number
		}
	}
	return p, nil
}

// ownFigures are the figures of a Granary process; nil before its first allocation.
func ownFigures(running inspect.Running, pid int) *inspect.Snapshot {
	if running.Name != inspect.Granary {
		return nil
	}
	target, err := inspect.Open(pid)
	if err != nil {
		return nil
	}
	defer target.Close()
	s, err := target.Snapshot()
	if err != nil {
		return nil
	}
	return s
}

// program is the base name of a command line's first word. A server may write its state behind its name.
func program(command string) string {
	first, _, _ := strings.Cut(command, " ")
	return filepath.Base(strings.TrimSuffix(first, ":"))
}

// command is the command line in one line, without control characters.
func command(proc procfs.FS, pid int) string {
	words, err := proc.Cmdline(pid)
	text := strings.Join(words, " ")
	if err != nil || text == "" {
		name, _ := proc.Comm(pid) // without a name the row has none
		text = "[" + name + "]"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

// An order of the list; larger first, except names and PIDs.
var psOrders = map[string]func(a, b Process) int{
	"rss":       func(a, b Process) int { return cmp.Compare(b.RSS, a.RSS) },
	"pss":       func(a, b Process) int { return cmp.Compare(b.PSS, a.PSS) },
	"live":      func(a, b Process) int { return cmp.Compare(b.Live, a.Live) },
	"ratio":     func(a, b Process) int { return cmp.Compare(b.Fragmentation, a.Fragmentation) },
	"heap":      func(a, b Process) int { return cmp.Compare(b.Heap, a.Heap) },
	"pid":       func(a, b Process) int { return cmp.Compare(a.PID, b.PID) },
	"allocator": func(a, b Process) int { return cmp.Compare(a.Allocator.Name, b.Allocator.Name) },
	"command":   func(a, b Process) int { return cmp.Compare(a.Command, b.Command) },
}

// Orders are the names Sort takes.
func Orders() []string {
	var out []string
	for name := range psOrders {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Sort orders the list; equal rows by PID. It is false for an unknown order.
func (l *List) Sort(by string) bool {
	order, ok := psOrders[by]
	if ok {
		slices.SortFunc(l.Processes, func(a, b Process) int {
			return cmp.Or(order(a, b), cmp.Compare(a.PID, b.PID))
		})
	}
	return ok
}

// Only keeps the processes under the allocator of that name.
func (l *List) Only(allocator string) {
	l.Processes = slices.DeleteFunc(l.Processes, func(p Process) bool { return p.Allocator.Name != allocator })
}
