package profile

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/push"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	pprofile "github.com/google/pprof/profile"
)

// AgentConfig sets the interval, the sampling rate and the limits of an agent.
type AgentConfig struct {
	Every     time.Duration // between two rounds
	Rate      uint64        // bytes between two samples
	Processes int           // at most so many
	Stacks    int           // at most so many of each; the rest is added up
	CPUShare  float64       // of one CPU, for the agent itself: rounds come less often beyond it
	Labels    []PushLabel   // added to every series
}

// A Collector profiles and sends.
type Collector struct {
	AgentConfig
	Proc     procfs.FS
	Discover func(limit int) (pids []int, more int, err error)
	Send     func(context.Context, PushSeries) error
	Finder   func() *symbol.Finder
	Log      *log.Logger
	CPU      func() time.Duration // that this process has used

	known  map[int]*agentProcess
	host   string
	boot   time.Time
	logged map[string]bool // messages, so that each is logged once
}

// An agentProcess is one that is sampled.
type agentProcess struct {
	started  uint64 // ticks: tells it from a later one of the same PID
	program  string // the base name of its file; empty if unknown
	session  *Session
	finder   *symbol.Finder
	previous *pprofile.Profile
	run      uint64 // generation of the samples in previous
}

// Run sends until ctx is done, and switches sampling off again where it switched it on.
func (a *Collector) Run(ctx context.Context) error {
	a.known, a.logged = map[int]*agentProcess{}, map[string]bool{}
	a.host, _ = os.Hostname()     // without it the label is empty
	a.boot, _ = a.Proc.BootTime() // without it the time of the start is left out
	defer a.stop()
	for {
		begin, cpu := time.Now(), a.CPU()
		a.round(ctx)
		pause := max(a.Every-time.Since(begin), Pause(a.CPU()-cpu, a.CPUShare)-time.Since(begin))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(pause, 0)):
		}
	}
}

// Pause is how long a round of so much CPU time must take, to be no more than a share of one CPU.
func Pause(used time.Duration, share float64) time.Duration {
	return time.Duration(float64(used) / share)
}

// round profiles every process once. An error in one process does not affect the others.
func (a *Collector) round(ctx context.Context) {
	pids, more, err := a.Discover(a.Processes)
	if err != nil {
		a.complain("%v", err)
		return
	}
	if more > 0 {
		a.complain("%d processes are left out: raise --max-processes", more)
	}
	for _, pid := range slices.Sorted(maps.Keys(a.known)) {
		if !slices.Contains(pids, pid) {
			a.forget(pid)
		}
	}
	for _, pid := range pids {
		if ctx.Err() != nil {
			return
		}
		if err := a.visit(ctx, pid); err != nil && ctx.Err() == nil && !errors.Is(err, inspect.ErrGone) && a.Proc.Alive(pid) {
			a.complain("process %d: %v", pid, err)
		}
	}
}

// complain logs a message the first time it occurs. The number of messages is bounded.
func (a *Collector) complain(format string, args ...any) {
	const most = 1000
	text := fmt.Sprintf(format, args...)
	if a.logged[text] || len(a.logged) == most {
		return
	}
	a.logged[text] = true
	if len(a.logged) == most {
		text = "further messages are left out"
	}
	a.Log.Print(text)
}

func (a *Collector) visit(ctx context.Context, pid int) error {
	p, err := a.process(ctx, pid)
	if err != nil {
		return err
	}
	h, err := p.session.Read(false)
	if errors.Is(err, errNotBegun) {
		return nil // it is asked already, and has allocated nothing since
	}
	if err != nil {
		a.forget(pid)
		return err
	}
	series, now, err := a.series(ctx, pid, p, h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := a.Send(ctx, series); err != nil && !push.Unsure(err) {
		return err // what was allocated since is in the next profile
	} else if err != nil {
		a.complain("process %d: %v", pid, err)
	}
	p.previous, p.run = now, h.Samples.Generation
	return nil
}

// patience is how long the agent waits for a process to switch sampling on or off. Without a background thread the
// process does it when it next allocates beyond its caches, and the next round finds it done.
const patience = 50 * time.Millisecond

// process is the one with this PID, with sampling on.
func (a *Collector) process(ctx context.Context, pid int) (*agentProcess, error) {
	stat, err := a.Proc.Stat(pid)
	if err != nil {
		return nil, inspect.ErrGone
	}
	if p := a.known[pid]; p != nil {
		if p.started == stat.StartTicks {
			return p, nil
		}
		a.forget(pid)
	}
	s, err := inspect.OpenSubject(a.Proc, fmt.Sprint(pid))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	session, err := Start(ctx, s, a.Rate)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p := &agentProcess{started: stat.StartTicks, session: session, finder: a.Finder()}
	if exe, err := a.Proc.Exe(pid); err == nil {
		p.program = filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	}
	p.finder.OfProcess(a.Proc, pid)
	a.known[pid] = p
	return p, nil
}

// forget lets go of a process and switches its sampling off, if it still runs and was switched on here.
func (a *Collector) forget(pid int) {
	p := a.known[pid]
	delete(a.known, pid)
	if stat, err := a.Proc.Stat(pid); err == nil && stat.StartTicks == p.started {
		if err := p.session.stopWithin(patience); err != nil {
			a.complain("process %d: %v", pid, err)
		}
	}
	if err := p.session.Subject.Close(); err != nil {
		a.complain("process %d: %v", pid, err)
	}
}

func (a *Collector) stop() {
	for _, pid := range slices.Sorted(maps.Keys(a.known)) {
		a.forget(pid)
	}
}

// series is the profile of a process as it is sent: what is in use, and what was allocated since the
// last one that was sent. It also returns the whole, from which the next one begins.
func (a *Collector) series(ctx context.Context, pid int, p *agentProcess, h Heap) (s PushSeries, now *pprofile.Profile, err error) {
	built, _ := h.Named(ctx, p.finder) // the server has the build ids of what has no name here
	now = built.Profile
	since := now.Copy()
	if p.previous != nil && p.run == h.Samples.Generation {
		if since, err = Since(now, p.previous); err != nil {
			return s, nil, err
		}
	}
	stat, err := a.Proc.Stat(pid)
	if err != nil || stat.StartTicks != p.started {
		return s, nil, inspect.ErrGone
	}
	s.Profile = Reduce(since, a.Stacks)
	s.Resource = push.Resource{Host: a.host, Command: stat.Command, PID: pid, Program: p.program, Labels: a.Labels}
	if !a.boot.IsZero() {
		s.Resource.Started = procfs.StartedAt(a.boot, p.started)
	}
	return s, now, nil
}

// Since is what is in use now, and what was allocated since the earlier profile.
func Since(now, earlier *pprofile.Profile) (*pprofile.Profile, error) {
	less := earlier.Copy()
	ratios := make([]float64, len(less.SampleType))
	for i, t := range less.SampleType {
		if t.Type == AllocObjects || t.Type == AllocSpace || t.Type == TemporarySpace {
			ratios[i] = -1
		}
	}
	if err := less.ScaleN(ratios); err != nil {
		return nil, err
	}
	d, err := pprofile.Merge([]*pprofile.Profile{now, less})
	if err != nil {
		return nil, err
	}
	d.TimeNanos, d.DurationNanos = now.TimeNanos, now.TimeNanos-earlier.TimeNanos
	return d, nil
}

// Reduce keeps the samples of p that hold or allocate most, and adds the others up.
func Reduce(p *pprofile.Profile, limit int) *pprofile.Profile {
	if limit <= 0 || len(p.Sample) <= limit {
		return p
	}
	inUse, allocated := Index(p, InUseSpace), Index(p, AllocSpace)
	slices.SortStableFunc(p.Sample, func(a, b *pprofile.Sample) int {
		return int(max(-1, min(1, b.Value[inUse]+b.Value[allocated]-a.Value[inUse]-a.Value[allocated])))
	})
	f := &pprofile.Function{ID: uint64(len(p.Function) + 1), Name: "[other stacks]", SystemName: "[other stacks]"}
	l := &pprofile.Location{ID: uint64(len(p.Location) + 1), Line: []pprofile.Line{{Function: f}}}
	other := &pprofile.Sample{Location: []*pprofile.Location{l}, Value: make([]int64, len(p.SampleType))}
	for _, s := range p.Sample[limit-1:] {
		for i, v := range s.Value {
			other.Value[i] += v
		}
	}
	p.Function, p.Location = append(p.Function, f), append(p.Location, l)
	p.Sample = append(p.Sample[:limit-1:limit-1], other)
	return p.Compact()
}
