// Package top shows processes with the allocator that each calls, its heap and its RSS: once as the list of
// `granary ps`, or live as a list and as one process over time. The live screens are a function of messages, so tests drive them without a
// terminal.
package top

import (
	"context"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"

	tea "charm.land/bubbletea/v2"
)

// history is how many samples of a process are kept: an hour at one a second.
const history = 3600

// Model is everything the screens show.
type Model struct {
	source   Source
	interval time.Duration

	width, height int
	paused        bool
	helping       bool
	note          string // the outcome of the last key, until the next

	list        List
	listErr     error
	order       int // index into orders
	granaryOnly bool
	cursor      int

	pid       int // the process shown; 0 for the list
	round     int // tells answers for an earlier process from those for this
	samples   []Sample
	sampleErr error
	classBy   int // index into classOrders
	fixed     bool

	profiling bool // stacks instead of size classes
	stacks    Stacks
	stacksErr error
	stackBy   int // index into stackOrders
}

// Messages.
type (
	tickMsg   struct{}
	listMsg   struct{ list List }
	listErr   struct{ err error }
	sampleMsg struct {
		round  int
		sample Sample
		err    error
	}
	noteMsg string
)

var orders = []string{"rss", "live", "ratio", "pid", "allocator", "command"}

// New is the first screen: the list, or the process if only one is given.
func New(source Source, interval time.Duration, pids []int) Model {
	m := Model{source: source, interval: interval, width: 80, height: 24}
	if len(pids) == 1 {
		m.pid, m.fixed = pids[0], true
	}
	return m
}

// Init asks for the first figures.
func (m Model) Init() tea.Cmd { return tea.Batch(m.ask(), m.tick()) }

func (m Model) tick() tea.Cmd {
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return tickMsg{} })
}

// ask reads the data of the present screen in the background.
func (m Model) ask() tea.Cmd {
	source, pid, round := m.source, m.pid, m.round
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if pid == 0 {
			list, err := source.List(ctx)
			if err != nil {
				return listErr{err}
			}
			return listMsg{list}
		}
		sample, err := source.Sample(ctx, pid)
		return sampleMsg{round, sample, err}
	}
}

// Update applies a message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		if m.paused {
			return m, m.tick()
		}
		if m.profiling {
			return m, tea.Batch(m.ask(), m.askStacks(), m.tick())
		}
		return m, tea.Batch(m.ask(), m.tick())
	case stacksMsg:
		m.takeStacks(msg)
	case listMsg:
		m.takeList(msg.list)
	case listErr:
		m.listErr = msg.err
	case sampleMsg:
		m.takeSample(msg)
	case noteMsg:
		m.note = string(msg)
	case tea.KeyPressMsg:
		return m.key(msg.String())
	}
	return m, nil
}

// takeList keeps the cursor on the process it was on.
func (m *Model) takeList(list List) {
	m.listErr = nil
	selected := 0
	if m.cursor < len(m.list.Processes) {
		selected = m.list.Processes[m.cursor].PID
	}
	m.list = list
	m.arrange(selected)
}

// arrange sorts and filters the list, and keeps the cursor on the process of this PID.
func (m *Model) arrange(selected int) {
	m.list.Sort(orders[m.order])
	m.cursor = min(m.cursor, max(0, len(m.shown())-1))
	for i, p := range m.shown() {
		if p.PID == selected {
			m.cursor = i
		}
	}
}

// shown are the rows of the list.
func (m Model) shown() []Process {
	if !m.granaryOnly {
		return m.list.Processes
	}
	l := List{Processes: append([]Process(nil), m.list.Processes...)}
	l.Only("granary")
	return l.Processes
}

func (m *Model) takeSample(msg sampleMsg) {
	if msg.round != m.round || m.pid == 0 {
		return // of a process that is no longer shown
	}
	m.sampleErr = msg.err
	if msg.err != nil {
		return
	}
	m.samples = append(m.samples, msg.sample)
	if len(m.samples) > history {
		m.samples = m.samples[len(m.samples)-history:]
	}
}

// key is the effect of a key; keys is the table of keys.
func (m Model) key(name string) (tea.Model, tea.Cmd) {
	m.note = ""
	if m.helping {
		m.helping = false
		return m, nil
	}
	for _, k := range keys() {
		for _, n := range k.names {
			if n == name && (k.where == both || (k.where == inList) == (m.pid == 0)) {
				return k.do(m)
			}
		}
	}
	return m, nil
}

func (m Model) open() (tea.Model, tea.Cmd) {
	rows := m.shown()
	if m.cursor >= len(rows) {
		return m, nil
	}
	m.pid, m.samples, m.sampleErr = rows[m.cursor].PID, nil, nil
	m.round++
	return m, m.ask()
}

func (m Model) back() (tea.Model, tea.Cmd) {
	if m.fixed {
		return m, tea.Quit
	}
	var end tea.Cmd
	if m.profiling {
		end = m.endProfile()
	}
	m.profiling, m.stacks, m.stacksErr = false, Stacks{}, nil
	m.pid, m.samples, m.sampleErr = 0, nil, nil
	m.round++
	return m, tea.Batch(end, m.ask())
}

func (m Model) purge() (tea.Model, tea.Cmd) {
	source, pid := m.source, m.pid
	if _, ok := m.last(); !ok {
		return m, nil
	}
	m.note = "purging ..."
	return m, func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		text, err := source.Purge(ctx, pid)
		if err != nil {
			return noteMsg(err.Error())
		}
		return noteMsg(text)
	}
}

func (m Model) save() (tea.Model, tea.Cmd) {
	source, pid, samples := m.source, m.pid, m.samples
	return m, func() tea.Msg {
		path, err := source.Save(pid, samples)
		if err != nil {
			return noteMsg(err.Error())
		}
		return noteMsg(fmt.Sprintf("saved %d samples to %s", len(samples), path))
	}
}

func (m Model) last() (Sample, bool) {
	if len(m.samples) == 0 {
		return Sample{}, false
	}
	return m.samples[len(m.samples)-1], true
}

// figure is a figure of the heap; 0 if the heap has no such figure.
func figure(s *inspect.Snapshot, name string) uint64 {
	if s == nil {
		return 0
	}
	v, _ := s.Value(name)
	return v
}
