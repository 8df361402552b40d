package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/term"

	tea "charm.land/bubbletea/v2"
)

// Stacks are the sampled stacks of a process at one moment.
type Stacks struct {
	For      time.Duration // since sampling was switched on
	Interval time.Duration // the time that rates and growth are computed over
	Rows     []StackRow
}

// A StackRow is one stack. Sizes are bytes.
type StackRow struct {
	Names     []string // innermost first
	PerSecond float64  // allocated
	Growth    float64  // of the live bytes, per minute
	InUse     float64
}

// stackOrders are the columns by which stacks are sorted.
var stackOrders = []struct {
	name string
	of   func(StackRow) float64
}{
	{"ALLOCATED/S", func(r StackRow) float64 { return r.PerSecond }},
	{"GROWTH/MIN", func(r StackRow) float64 { return r.Growth }},
	{"IN USE", func(r StackRow) float64 { return r.InUse }},
}

type (
	stacksMsg struct {
		round  int
		stacks Stacks
		err    error
	}
)

// profile switches the view of stacks on or off, and with it the sampling.
func (m Model) profile() (tea.Model, tea.Cmd) {
	m.profiling, m.stacks, m.stacksErr = !m.profiling, Stacks{}, nil
	if m.profiling {
		return m, m.askStacks()
	}
	return m, m.endProfile()
}

func (m Model) endProfile() tea.Cmd {
	source, pid := m.source, m.pid
	return func() tea.Msg {
		if err := source.EndProfile(pid); err != nil {
			return noteMsg(err.Error())
		}
		return nil
	}
}

func (m Model) askStacks() tea.Cmd {
	source, pid, round := m.source, m.pid, m.round
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stacks, err := source.Stacks(ctx, pid)
		return stacksMsg{round, stacks, err}
	}
}

func (m *Model) takeStacks(msg stacksMsg) {
	if msg.round != m.round || !m.profiling {
		return // of a process that is no longer shown
	}
	m.stacksErr = msg.err
	if msg.err == nil {
		m.stacks = msg.stacks
	}
}

// stackLines are the stacks, below the figures of a process.
func (m Model) stackLines() []string {
	if m.stacksErr != nil {
		return append([]string{""}, wrap(warnings, m.stacksErr.Error(), m.width)...)
	}
	if m.stacks.Interval == 0 {
		return []string{"", "sampling ..."}
	}
	by := stackOrders[m.stackBy]
	rows := slices.DeleteFunc(slices.Clone(m.stacks.Rows), func(r StackRow) bool { return by.of(r) <= 0 })
	slices.SortStableFunc(rows, func(a, b StackRow) int {
		return cmp.Or(cmp.Compare(by.of(b), by.of(a)), slices.Compare(a.Names, b.Names))
	})
	head := fmt.Sprintf("%12s %12s %12s  STACK (innermost first), %v of %v", heading("ALLOCATED/S", by.name == "ALLOCATED/S"),
		heading("GROWTH/MIN", by.name == "GROWTH/MIN"), heading("IN USE", by.name == "IN USE"), m.stacks.Interval.Round(time.Second), m.stacks.For.Round(time.Second))
	lines := []string{"", inverse.Render(pad(head, m.width))}
	for _, r := range rows {
		lines = append(lines, cut(fmt.Sprintf("%12s %12s %12s  %s", term.Bytes(uint64(r.PerSecond)), term.Signed(int64(r.Growth)),
			term.Bytes(uint64(r.InUse)), strings.Join(r.Names, " < ")), m.width))
	}
	if len(rows) == 0 {
		lines = append(lines, "no stack has any yet")
	}
	return lines
}

// A Profiler samples the processes that Live shows the stacks of.
type Profiler struct {
	Finder func() *symbol.Finder

	mutex    sync.Mutex
	sessions map[int]*stackSession
}

// A stackSession is sampling in one process.
type stackSession struct {
	session *profile.Session
	finder  *symbol.Finder
	names   map[int][]string // by stack of this generation
	history []*inspect.Samples
}

// rateInterval is the time that rates and growth are computed over.
const rateInterval = 30 * time.Second

// Stacks switches sampling on in process pid unless it is on, and reads the samples.
func (l Live) Stacks(ctx context.Context, pid int) (Stacks, error) {
	p := l.Profiler
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s := p.sessions[pid]
	if s == nil {
		var err error
		if s, err = p.start(ctx, l.Proc, pid); err != nil {
			return Stacks{}, err
		}
	}
	h, err := s.session.Read(false)
	if err != nil {
		return Stacks{}, err
	}
	return s.take(ctx, h), nil
}

func (p *Profiler) start(ctx context.Context, proc procfs.FS, pid int) (*stackSession, error) {
	target, err := inspect.OpenSubject(proc, fmt.Sprint(pid))
	if err != nil {
		return nil, err
	}
	session, err := profile.Start(ctx, target, profile.DefaultRate)
	if err != nil {
		target.Close()
		return nil, err
	}
	s := &stackSession{session: session, finder: p.Finder(), names: map[int][]string{}}
	s.finder.OfProcess(proc, pid)
	if p.sessions == nil {
		p.sessions = map[int]*stackSession{}
	}
	p.sessions[pid] = s
	return s, nil
}

// take adds a reading and computes the rates.
func (s *stackSession) take(ctx context.Context, h profile.Heap) Stacks {
	now := h.Samples
	if n := len(s.history); n > 0 && s.history[n-1].Generation != now.Generation {
		s.history, s.names = nil, map[int][]string{}
	}
	s.history = append(s.history, now)
	for len(s.history) > 2 && now.For-s.history[1].For >= rateInterval {
		s.history = s.history[1:]
	}
	if len(s.names) < len(now.Stacks) { // new stacks
		built, _ := h.Named(ctx, s.finder) // a function without a name is shown as an address
		for i, locations := range built.Stacks {
			s.names[i] = profile.NamesOf(locations)
		}
	}
	return compare(s.history[0], now, s.names)
}

// compare computes the changes between two readings; with one reading, since sampling began.
func compare(before, now *inspect.Samples, names map[int][]string) Stacks {
	out := Stacks{For: now.For, Interval: now.For - before.For}
	if before == now {
		before, out.Interval = &inspect.Samples{}, now.For
	}
	seconds := max(out.Interval.Seconds(), 0.001)
	for i, stack := range now.Stacks {
		var earlier inspect.Stack
		if i < len(before.Stacks) {
			earlier = before.Stacks[i]
		}
		out.Rows = append(out.Rows, StackRow{
			Names:     names[i],
			PerSecond: max(0, stack.Allocated.Bytes-earlier.Allocated.Bytes) / seconds,
			Growth:    (stack.InUse().Bytes - earlier.InUse().Bytes) / seconds * 60,
			InUse:     stack.InUse().Bytes,
		})
	}
	return out
}

// EndProfile switches sampling off in process pid, or in all if pid is 0, where it was switched on here.
func (l Live) EndProfile(pid int) error {
	p := l.Profiler
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var first error
	for id, s := range p.sessions {
		if pid != 0 && id != pid {
			continue
		}
		delete(p.sessions, id)
		for _, err := range []error{s.session.Stop(), s.session.Subject.Close()} {
			if first == nil {
				first = err
			}
		}
	}
	return first
}
