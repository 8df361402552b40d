package cold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// fakeSource takes time on a fakeClock; in interval i the pages touched[i] are accessed.
type fakeSource struct {
	clock            *fakeClock
	cost             Cost
	touched          [][]uint64
	interval         int
	failing, missing bool
}

var errFake = errors.New("the source failed")

func (*fakeSource) Name() string { return "fake" }
func (*fakeSource) Close() error { return nil }

func (s *fakeSource) Peek([]Range, func(Range, bool)) error { return nil }
func (s *fakeSource) PageOut([]Range) error                 { return nil }

func (s *fakeSource) Sample(ranges []Range, visit func(Range, bool)) (Cost, error) {
	s.clock.time += s.cost.Total()
	if s.failing && s.interval > 0 {
		return s.cost, errFake
	}
	for _, r := range ranges {
		for at := r.Start; at < r.End && !s.missing; at += 4096 {
			visit(Range{Start: at, End: at + 4096}, s.interval < len(s.touched) && slices.Contains(s.touched[s.interval], at))
		}
	}
	s.interval++
	return s.cost, nil
}

type fakeClock struct{ time time.Duration }

func (c *fakeClock) now() time.Duration { return c.time }

func (c *fakeClock) until(ctx context.Context, end time.Duration) error {
	c.time = max(c.time, end)
	return ctx.Err()
}

func newWatch(s *fakeSource, length time.Duration, intervals int) *watch {
	s.clock = &fakeClock{}
	return &watch{source: s, ranges: []Range{{Start: 0x1000, End: 0x5000}, {Start: 0x9000, End: 0xa000}}, page: 4096, length: length, intervals: intervals, clock: s.clock}
}

func TestAPageIsAsOldAsItsLastAccess(t *testing.T) {
	w := newWatch(&fakeSource{touched: [][]uint64{{0x4000}, {0x1000, 0x2000, 0x9000}, {0x2000}, {}, {0x3000}}}, 40*time.Second, 4)
	ages, err := w.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]time.Duration{0x1000: 30, 0x1fff: 30, 0x2000: 20, 0x3000: 0, 0x4000: 40, 0x9000: 30} {
		if age, inMemory := ages.Of(address); age != want*time.Second || !inMemory {
			t.Errorf("page %#x is %v old, want %d s", address, age, want)
		}
	}
	if age, _ := ages.Of(0x6000); age != 0 {
		t.Errorf("an address that was not watched is %v old", age)
	}
}

func TestAPageThatLeftMemoryHasNoAge(t *testing.T) {
	ages, err := newWatch(&fakeSource{missing: true}, time.Second, 1).run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, inMemory := ages.Of(0x1000); inMemory {
		t.Error("a page that was not visited counts as in memory")
	}
}

func TestTheCostIsBounded(t *testing.T) {
	for _, took := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 3 * time.Second} {
		source := &fakeSource{cost: Cost{Reading: took / 2, Forgetting: took / 2, Longest: took / 8}}
		w := newWatch(source, 10*time.Second, 10)
		ages, err := w.run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(ages.ends) > 10 || ages.Length() < 9*time.Second || source.interval != len(ages.ends)+1 {
			t.Errorf("%d samples, %d intervals in %v", source.interval, len(ages.ends), ages.Length())
		}
		// The first sample is taken before the watch begins.
		if share := float64(w.cost.Total()-took) / float64(ages.Length()); share > maxShare {
			t.Errorf("samples of %v took %.3f of the time", took, share)
		}
		if w.cost.Longest != took/8 || w.cost.Total() != time.Duration(source.interval)*took {
			t.Errorf("%d samples of %v cost %+v", source.interval, took, w.cost)
		}
	}
}

func TestAWatchEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := newWatch(&fakeSource{}, time.Second, 2).run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled watch: %v", err)
	}
	if _, err := newWatch(&fakeSource{failing: true}, time.Second, 2).run(context.Background()); !errors.Is(err, errFake) {
		t.Errorf("a watch whose source fails: %v", err)
	}
}

func TestRangesThatGrowKeepTheirAges(t *testing.T) {
	a := newAges([]Range{{Start: 0x3000, End: 0x5000}, {Start: 0x8000, End: 0x9000}}, 4096)
	a.end(time.Second)(Range{Start: 0x3000, End: 0x5000}, false)
	a.extend([]Range{{Start: 0x1000, End: 0xa000}})
	want := []Range{{Start: 0x1000, End: 0x3000}, {Start: 0x3000, End: 0x5000}, {Start: 0x5000, End: 0x8000}, {Start: 0x8000, End: 0x9000}, {Start: 0x9000, End: 0xa000}}
	var got []Range
	for _, r := range a.runs {
		got = append(got, r.Range)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the runs are %v", got)
	}
	if age, present := a.Of(0x4000); age != time.Second || !present {
		t.Errorf("a known page is %v old", age)
	}
}
