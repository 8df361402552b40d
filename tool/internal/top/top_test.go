package top

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	tea "charm.land/bubbletea/v2"
)

// fake is a machine of four processes; samples of 812 follow a fixed curve.
type fake struct {
	second int
	fails  error
	saved  int
	ended  int // profiles
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (f *fake) Now() time.Time { return start.Add(time.Duration(f.second) * time.Second) }

func (f *fake) List(context.Context) (List, error) {
	granary := inspect.Running{Name: "granary", Version: "0.1.0", How: "preloaded"}
	glibc := inspect.Running{Name: "glibc", Version: "2.36", How: "system"}
	return List{Processes: []Process{
		{PID: 1, Program: "init", Command: "/sbin/init", Allocator: glibc, RSS: 12 << 20, Heap: 3 << 20},
		{PID: 812, Program: "redis-server", Live: 600 << 20, Fragmentation: 1.47, Command: "/usr/bin/redis-server *:6379", Allocator: granary, RSS: 900 << 20, Heap: 880 << 20},
		{PID: 900, Program: "python3", Live: 25 << 20, Fragmentation: 1.2, Command: "python3 a-program-with-a-rather-long-command-line.py --and --many --words", Allocator: granary, RSS: 50 << 20, Heap: 30 << 20},
		{PID: 901, Program: "node", Command: "node app.js", Allocator: glibc, RSS: 200 << 20, Heap: 150 << 20},
	}}, f.fails
}

func (f *fake) Sample(_ context.Context, pid int) (Sample, error) {
	if f.fails != nil {
		return Sample{}, f.fails
	}
	f.second++
	at := uint64(f.second)
	s := Sample{Taken: f.Now(), Command: "/usr/bin/redis-server *:6379", RSS: 100 << 20, Threads: 5, CPU: float64(at) / 2, Faults: 1000 * at,
		Allocator: inspect.Running{Name: "granary", Version: "0.1.0", How: "preloaded"}}
	if pid == 901 {
		s.Command, s.Allocator = "node app.js", inspect.Running{Name: "glibc", Version: "2.36", How: "system"}
		s.Kinds = []Part{{"program break", 60 << 20}, {"anonymous mappings", 30 << 20}, {"code", 10 << 20}, {"shared memory", 0}}
		return s, nil
	}
	live := 20 + at*4
	if at > 15 {
		live = 20
	}
	s.RSS = (40 + live) << 20
	m := func(name, kind, unit string, v uint64) inspect.Metric {
		return inspect.Metric{Name: name, Kind: kind, Unit: unit, Value: v}
	}
	s.Heap = &inspect.Snapshot{Metrics: []inspect.Metric{
		m("live", "gauge", "bytes", live<<20), m("cached", "gauge", "bytes", 1<<20), m("depot", "gauge", "bytes", 1<<19),
		m("slab_free", "gauge", "bytes", 9<<20), m("slab_clean", "gauge", "bytes", 2<<20), m("dirty", "gauge", "bytes", 3<<20),
		m("used_spans", "gauge", "bytes", (live+20)<<20), m("metadata_used", "gauge", "bytes", 700<<10),
		m("allocations", "counter", "count", 250_000*at), m("frees", "counter", "count", 200_000*at), m("released", "counter", "bytes", (at/8)<<20),
		m("contentions_pages", "counter", "count", 3*at),
	}, Classes: []inspect.Class{
		{Size: 48, Small: true, Live: 400_000, Slabs: 400, SlabBytes: 65536, Allocations: 900_000},
		{Size: 1024, Small: true, Live: 10_000, Slabs: 200, SlabBytes: 65536, Allocations: 20_000},
		{Size: 131072, Live: 7, Allocations: 9},
	}}
	return s, nil
}

func (f *fake) Purge(_ context.Context, pid int) (string, error) {
	return fmt.Sprintf("process %d purged 3.0 MiB", pid), f.fails
}

func (f *fake) Stacks(context.Context, int) (Stacks, error) {
	return Stacks{For: 42 * time.Second, Interval: 30 * time.Second, Rows: []StackRow{
		{Names: []string{"dictAdd", "dbAdd", "setGenericCommand", "call", "processCommand"}, PerSecond: 3 << 20, Growth: 90 << 20, InUse: 70 << 20},
		{Names: []string{"createStringObject", "readQueryFromClient"}, PerSecond: 80 << 20, Growth: -2 << 20, InUse: 1 << 20},
		{Names: []string{"main"}, InUse: 4096},
	}}, f.fails
}

func (f *fake) EndProfile(int) error { f.ended++; return nil }

func (f *fake) Save(_ int, samples []Sample) (string, error) {
	f.saved = len(samples)
	return "granary-top-812.json", f.fails
}

// drive presses keys; "tick" lets a reading happen, WxH changes the size of the screen.
func drive(t *testing.T, m tea.Model, words ...string) tea.Model {
	t.Helper()
	send := func(msg tea.Msg) {
		var cmd tea.Cmd
		m, cmd = m.Update(msg)
		if cmd != nil {
			if answer := cmd(); answer != nil {
				m, _ = m.Update(answer)
			}
		}
	}
	for _, word := range words {
		var w, h int
		switch n, _ := fmt.Sscanf(word, "%dx%d", &w, &h); {
		case n == 2:
			send(tea.WindowSizeMsg{Width: w, Height: h})
		case word == "tick":
			m, _ = m.Update(m.(Model).ask()())
		case word == "enter":
			send(tea.KeyPressMsg{Code: tea.KeyEnter})
		case word == "esc":
			send(tea.KeyPressMsg{Code: tea.KeyEscape})
		case word == "down":
			send(tea.KeyPressMsg{Code: tea.KeyDown})
		case word == "space":
			send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
		default:
			send(tea.KeyPressMsg{Code: []rune(word)[0], Text: word})
		}
	}
	return m
}

func ticks(n int) (out []string) {
	for range n {
		out = append(out, "tick")
	}
	return out
}

func TestScreens(t *testing.T) {
	open := []string{"tick", "enter"}
	for name, words := range map[string][]string{
		"start":           {},
		"list":            {"tick"},
		"list-by-pid":     {"tick", "s", "s", "down", "down"},
		"list-granary":    {"tick", "g", "down"},
		"list-narrow":     {"40x8", "tick", "down", "down"},
		"keys":            {"tick", "?"},
		"process-first":   append(open, "80x24"),
		"process":         append(append(open, ticks(25)...), "100x40"),
		"process-by-live": append(append(open, ticks(3)...), "80x40", "s"),
		"process-paused":  append(append(open, ticks(3)...), "space"),
		"process-purged":  append(append(open, ticks(2)...), "P"),
		"stacks":          append(append(open, ticks(3)...), "100x40", "p"),
		"stacks-growth":   append(append(open, ticks(3)...), "100x40", "p", "s"),
		"stacks-off":      append(append(open, ticks(3)...), "100x40", "p", "p"),
		"process-saved":   append(append(open, ticks(2)...), "w"),
		"other":           {"tick", "down", "enter", "tick", "tick"},
		"tiny":            append(append(open, ticks(3)...), "20x5"),
	} {
		t.Run(name, func(t *testing.T) {
			m := drive(t, New(&fake{}, time.Second, nil), words...)
			testkit.Check(t, "testdata/"+name+".golden", []byte(m.View().Content+"\n"))
		})
	}
}

func TestAProcessThatDiesKeepsItsLastFigures(t *testing.T) {
	f := &fake{}
	m := drive(t, New(f, time.Second, []int{812}), append(ticks(4), "80x30")...)
	f.fails = errors.New("there is no process 812: it has ended")
	m = drive(t, m, "tick")
	testkit.Check(t, "testdata/process-died.golden", []byte(m.View().Content+"\n"))
	m = drive(t, New(f, time.Second, []int{813}), "tick")
	testkit.Check(t, "testdata/process-never.golden", []byte(m.View().Content+"\n"))
}

func TestAnAnswerForAnotherProcessIsDropped(t *testing.T) {
	m := drive(t, New(&fake{}, time.Second, nil), "tick", "enter")
	late := m.(Model).ask()()
	m = drive(t, m, "esc", "down", "enter")
	before := len(m.(Model).samples)
	m, _ = m.Update(late)
	if got := m.(Model); got.pid != 901 || len(got.samples) != before {
		t.Errorf("process %d has %d samples, had %d", got.pid, len(got.samples), before)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	m := drive(t, New(&fake{}, time.Second, []int{812}), ticks(history+50)...).(Model)
	if len(m.samples) != history || !m.samples[history-1].Taken.After(m.samples[0].Taken) {
		t.Errorf("%d samples", len(m.samples))
	}
}

// Leaving a process ends its sampling.
func TestSamplingEndsWithTheView(t *testing.T) {
	f := &fake{}
	m := drive(t, New(f, time.Second, nil), "tick", "enter", "tick", "p")
	if !m.(Model).profiling || f.ended != 0 {
		t.Fatal("p does not begin to sample")
	}
	_, cmd := m.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	for _, c := range cmd().(tea.BatchMsg) {
		c()
	}
	if f.ended != 1 {
		t.Errorf("sampling was ended %d times", f.ended)
	}
	f.fails = errors.New("the library in the process cannot sample allocations")
	m = drive(t, New(f, time.Second, []int{812}), "p")
	if m.(Model).stacksErr == nil {
		t.Error("the reason why there are no stacks is not kept")
	}
}

// The rates of the last interval, or of the whole time after one reading.
func TestRatesOfStacks(t *testing.T) {
	reading := func(seconds, allocated, freed float64) *inspect.Samples {
		return &inspect.Samples{For: time.Duration(seconds * 1e9), Stacks: []inspect.Stack{{
			Allocated: inspect.Amount{Objects: 1e9, Bytes: allocated}, Freed: inspect.Amount{Bytes: freed}}}}
	}
	names := map[int][]string{0: {"main"}}
	first, last := reading(10, 1000, 400), reading(20, 3000, 1400)
	if got := compare(first, last, names); got.Interval != 10*time.Second || got.Rows[0].PerSecond != 200 || got.Rows[0].Growth != 6000 || got.Rows[0].InUse != 1600 {
		t.Errorf("between two readings: %+v", got)
	}
	if got := compare(first, first, names); got.Interval != 10*time.Second || got.Rows[0].PerSecond != 100 {
		t.Errorf("since the beginning: %+v", got)
	}
}

func TestQuit(t *testing.T) {
	for _, m := range []Model{New(&fake{}, time.Second, nil), New(&fake{}, time.Second, []int{812})} {
		_, cmd := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
		if cmd == nil || cmd() != tea.Quit() {
			t.Error("q does not quit")
		}
	}
}
