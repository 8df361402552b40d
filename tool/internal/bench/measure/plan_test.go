package measure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

var abc = []allocators.Allocator{{Name: "a"}, {Name: "b"}, {Name: "c"}}

type counts struct{ steps, ticks, dropped int }

func (c *counts) Step(string)  { c.steps++ }
func (c *counts) Tick(string)  { c.ticks++ }
func (c *counts) Drop(n int)   { c.dropped += n }
func (c *counts) settled() int { return c.ticks + c.dropped }

// clock advances by a minute at each call.
func clock() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time { now = now.Add(time.Minute); return now }
}

func name(s Step) string { return fmt.Sprintf("%s%s%d", s.Allocator.Name, s.Subject, s.Round) }

// recorder works by writing down; the steps named in fail do not succeed.
func recorder(order *[]string, fail ...string) Work {
	return func(_ context.Context, s Step, tick func(string)) (result.Sample, error) {
		*order = append(*order, name(s))
		tick("half")
		for _, f := range fail {
			if f == name(s) {
				return result.Sample{}, errors.New("it broke")
			}
		}
		tick("whole")
		var sample result.Sample
		sample.Set("p", "m", float64(s.Round))
		return sample, nil
	}
}

func TestRoundsAreInterleaved(t *testing.T) {
	var order []string
	var c counts
	var r result.Results
	p := Plan{Allocators: abc, Rounds: 3, Parts: 2, Work: recorder(&order), Progress: &c, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "a0 c0 b0 b1 a1 c1 c2 b2 a2" {
		t.Errorf("order %s", got)
	}
	if got := r.Values("b", result.Key{Phase: "p", Metric: "m"}); !reflect.DeepEqual(got, map[int]float64{0: 0, 1: 1, 2: 2}) {
		t.Errorf("values %v", got)
	}
	if r.Rounds != 3 || c.steps != 9 || c.ticks != p.Total() {
		t.Errorf("rounds %d, progress %+v of %d", r.Rounds, c, p.Total())
	}
}

func TestEverybodyTakesEachPlaceAndFollowsEachOtherEquallyOften(t *testing.T) {
	for n := 1; n <= 12; n++ {
		selected := make([]allocators.Allocator, n)
		for i := range selected {
			selected[i].Name = fmt.Sprint(i)
		}
		squares := 1 + n%2
		place, before := map[string]int{}, map[string]int{}
		for round := range squares * n {
			order := Order(selected, round)
			for i, c := range order {
				place[fmt.Sprint(c.Name, "@", i)]++
				if i > 0 {
					before[order[i-1].Name+"<"+c.Name]++
				}
			}
		}
		if len(place) != n*n || len(before) != n*(n-1) {
			t.Errorf("of %d allocators: %d places, %d neighbours", n, len(place), len(before))
		}
		for what, times := range place {
			if times != squares {
				t.Errorf("of %d allocators %s: %d times", n, what, times)
			}
		}
		for what, times := range before {
			if times != squares {
				t.Errorf("of %d allocators %s: %d times", n, what, times)
			}
		}
	}
}

func TestSubjectsAreMeasuredTogether(t *testing.T) {
	var order []string
	var r result.Results
	p := Plan{Allocators: abc[:2], Subjects: []string{"x", "y"}, Rounds: 2, Parts: 2, Work: recorder(&order), Progress: &counts{}, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "ax0 bx0 ay0 by0 bx1 ax1 by1 ay1" {
		t.Errorf("order %s", got)
	}
}

func TestAFailureTakesOneAllocatorOutOfOneSubject(t *testing.T) {
	var order []string
	var c counts
	var r result.Results
	p := Plan{Allocators: abc[:2], Subjects: []string{"x", "y"}, Rounds: 3, Parts: 2, Work: recorder(&order, "bx1"), Progress: &c, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	want := []result.Failure{{Subject: "x", Allocator: "b", Round: 1, Reason: "it broke"}}
	if !reflect.DeepEqual(r.Failures, want) {
		t.Errorf("failures %+v", r.Failures)
	}
	if got := strings.Join(order, " "); got != "ax0 bx0 ay0 by0 bx1 ax1 by1 ay1 ax2 ay2 by2" {
		t.Errorf("order %s", got)
	}
	if c.settled() != p.Total() {
		t.Errorf("progress ends at %d of %d", c.settled(), p.Total())
	}
}

func TestNothingMeasuredIsAnError(t *testing.T) {
	var order []string
	var r result.Results
	p := Plan{Allocators: abc[:1], Rounds: 2, Parts: 2, Work: recorder(&order, "a0"), Progress: &counts{}, Now: clock()}
	if err := Run(context.Background(), p, &r); err == nil || len(r.Failures) != 1 {
		t.Errorf("err %v, failures %v", err, r.Failures)
	}
}

func TestABudgetStopsBeforeARoundThatWouldNotEnd(t *testing.T) {
	var order []string
	var r result.Results
	p := Plan{Allocators: abc, Rounds: 9, Parts: 2, Budget: 30 * time.Minute, Work: recorder(&order), Progress: &counts{}, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if r.Rounds == 0 || r.Rounds == 9 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "of 9 rounds") {
		t.Errorf("rounds %d, notes %q", r.Rounds, r.Notes)
	}
}

func TestAStepThatOutlastsTheBudgetIsDroppedAndNotAFailure(t *testing.T) {
	work := func(ctx context.Context, s Step, _ func(string)) (result.Sample, error) {
		var sample result.Sample
		sample.Set("p", "m", 1)
		if s.Allocator.Name == "b" && s.Round == 1 { // as on a machine that became slower
			<-ctx.Done()
			return sample, ctx.Err()
		}
		return sample, nil
	}
	var r result.Results
	p := Plan{Allocators: abc, Rounds: 2, Parts: 1, Budget: 300 * time.Millisecond, Work: work, Progress: &counts{}, Now: time.Now}
	if err := Run(context.Background(), p, &r); err != nil || len(r.Failures) > 0 || r.Rounds != 1 || len(r.Values("b", result.Key{Phase: "p", Metric: "m"})) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "stopped in round 2 of 2") {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestABudgetTooSmallForARoundLeavesAllocatorsOutButNotGranary(t *testing.T) {
	var order []string
	var r result.Results
	var c counts
	selected := append(abc[:2:2], allocators.Allocator{Name: "granary"})
	p := Plan{Allocators: selected, Rounds: 2, Parts: 2, Budget: 4 * time.Minute, Work: recorder(&order), Progress: &c, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if order[0] != "granary0" || slices.Contains(order, "b0") || !strings.Contains(strings.Join(r.Notes, "\n"), "b is left out, as it would not have ended within 4m0s") {
		t.Errorf("order %q, notes %q", order, r.Notes)
	}
}

func TestARoundThatBecomesTooSlowIsGivenUp(t *testing.T) {
	now := time.Unix(0, 0)
	var r result.Results
	steps := 0
	p := Plan{Allocators: abc, Rounds: 5, Parts: 1, Budget: 20 * time.Minute, Progress: &counts{}, Now: func() time.Time { return now },
		Work: func(_ context.Context, s Step, _ func(string)) (result.Sample, error) {
			if steps++; steps > 3 {
				now = now.Add(8 * time.Minute) // another process began to work
			}
			now = now.Add(time.Minute)
			var sample result.Sample
			sample.Set("p", "m", 1)
			return sample, nil
		}}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if r.Rounds != 1 || len(r.Observations) != 3 || now.After(time.Unix(0, 0).Add(p.Budget)) || !strings.Contains(r.Notes[0], "stopped in round 2 of 5") {
		t.Errorf("%d rounds until %v, notes %q", r.Rounds, now, r.Notes)
	}
}

func TestAddedRoundsAreNumberedOn(t *testing.T) {
	var order []string
	r := result.Results{Rounds: 3, Seconds: 1000}
	p := Plan{Allocators: abc[:1], Rounds: 2, First: 3, Parts: 2, Work: recorder(&order), Progress: &counts{}, Now: clock()}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "a3 a4" || r.Rounds != 5 || r.Seconds <= 1000 {
		t.Errorf("order %s, %d rounds, %v s", got, r.Rounds, r.Seconds)
	}
}

func TestAFailedStepKeepsWhatItHadFinished(t *testing.T) {
	var r result.Results
	p := Plan{Allocators: abc[:1], Rounds: 1, Parts: 2, Progress: &counts{}, Now: clock(), Work: func(context.Context, Step, func(string)) (result.Sample, error) {
		var s result.Sample
		s.Set("first phase", "m", 1)
		return s, errors.New("it died in the second")
	}}
	if err := Run(context.Background(), p, &r); err == nil || len(r.Observations) != 1 || len(r.Failures) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestAnInterruptKeepsFinishedRounds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var order []string
	work := recorder(&order)
	var r result.Results
	p := Plan{Allocators: abc, Rounds: 3, Parts: 2, Progress: &counts{}, Now: clock(),
		Work: func(ctx context.Context, s Step, tick func(string)) (result.Sample, error) {
			if name(s) == "c1" {
				cancel()
			}
			return work(ctx, s, tick)
		}}
	if err := Run(ctx, p, &r); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if r.Rounds != 1 || len(r.Observations) != 3 || len(r.Failures) != 0 {
		t.Errorf("rounds %d, observations %v, failures %v", r.Rounds, r.Observations, r.Failures)
	}
}

func TestAStepThatHangsIsStoppedAndTheRestGoesOn(t *testing.T) {
	var r result.Results
	p := Plan{Allocators: abc, Rounds: 2, Parts: 1, Limit: 50 * time.Millisecond, Out: Out{}, Progress: &counts{}, Now: time.Now,
		Work: func(ctx context.Context, s Step, _ func(string)) (result.Sample, error) {
			var sample result.Sample
			sample.Set("p", "m", 1)
			if s.Allocator.Name == "b" {
				<-ctx.Done()
				return sample, ctx.Err()
			}
			return sample, nil
		}}
	if err := Run(context.Background(), p, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 1 || r.Failures[0].Allocator != "b" || r.Failures[0].Reason != "it did not end within 50ms and was stopped" || len(r.Observations) != 5 {
		t.Errorf("failures %+v, %d observations", r.Failures, len(r.Observations))
	}
	for want := range 2 { // one retry, because the machine may be the cause; then none
		p.First = r.Rounds
		if err := Run(context.Background(), p, &r); err != nil || len(r.Failures) != 2 {
			t.Errorf("in later pass %d: %v, failures %+v", want+1, err, r.Failures)
		}
	}
}

func TestWhatIsKnownToFitIsBalancedAndElseWhoHasFewestRoundsComesFirst(t *testing.T) {
	selected := append(abc[:2:2], allocators.Allocator{Name: "granary"})
	for budget, want := range map[time.Duration]string{
		time.Hour:        "b1 a1 granary1", // the second row of the square
		40 * time.Second: "granary1 b1",    // b lacks a round that a has; a has no time left
	} {
		now := time.Unix(0, 0)
		var order []string
		var r result.Results
		for _, name := range []string{"a", "granary"} {
			var s result.Sample
			s.Set("p", "m", 1)
			r.Add(name, 0, s)
		}
		work := recorder(&order)
		p := Plan{Allocators: selected, First: 1, Parts: 2, Now: func() time.Time { return now },
			Work: func(ctx context.Context, s Step, tick func(string)) (result.Sample, error) {
				now = now.Add(20 * time.Second)
				return work(ctx, s, tick)
			}}.With(Pass{Rounds: 1, Budget: budget, Expect: 20 * time.Second, Progress: &counts{}})
		if err := Run(context.Background(), p, &r); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("with %v: %s, want %s", budget, got, want)
		}
	}
}
