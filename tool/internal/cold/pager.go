package cold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A pager pages out memory that was not accessed for a time, and watches what returns.
type pager struct {
	source Source
	read   func() (candidates, error)
	swap   func() (procfs.Swap, error)
	clock  clock
	older  time.Duration
	pace   pace
	keep   bool               // continue until the context ends
	report func(s Step) error // after each interval in which something happened

	ages  *Ages
	begin time.Duration
	took  time.Duration // by the last sample
	total Paged
}

// Paged are sums of a whole run, in bytes.
type Paged struct {
	Out      uint64 `json:"paged_out_bytes"`
	Returned uint64 `json:"returned_bytes"`
	Kept     uint64 `json:"kept_by_kernel_bytes"` // advice without effect
}

// A Step is one interval.
type Step struct {
	After    time.Duration
	Paged    uint64 // in this interval, bytes
	Returned uint64
	Out      uint64 // now
	Rate     uint64 // bytes a second
}

// intervalsOf is the number of intervals in the required age. A page is paged out at most one interval after it
// reaches this age.
const intervalsOf = 8

// backoff multiplies the required age of a page that was paged out and returned.
const backoff = 4

// errKept ends a run in which advice has no effect.
var errKept = errors.New("the kernel keeps the pages in memory: swap is full, or the memory cgroup of the process allows it no swap (memory.swap.max)")

// run returns when all cold memory is out and an interval has shown what returns, or, with keep, when ctx ends.
func (p *pager) run(ctx context.Context) (Paged, error) {
	all, err := p.read()
	if err != nil {
		return p.total, err
	}
	p.ages = newAges(all.ranges, all.page)
	if err := p.sample(func(Range, bool) {}); err != nil {
		return p.total, err
	}
	p.begin = p.clock.now()
	for last := false; ; {
		step, pending, err := p.interval(ctx)
		switch {
		case ctx.Err() != nil && p.keep:
			return p.total, nil
		case err != nil:
			return p.total, err
		}
		if step.Paged > 0 || step.Returned > 0 {
			if err := p.report(step); err != nil {
				return p.total, err
			}
		}
		settled := p.ages.Length() >= p.older && (pending == 0 || step.Rate == 0)
		if settled && last && !p.keep {
			return p.total, nil
		}
		last = settled
	}
}

func (p *pager) sample(visit func(Range, bool)) error {
	cost, err := p.source.Sample(p.ranges(), visit)
	p.took = cost.Total()
	return err
}

func (p *pager) ranges() (out []Range) {
	for _, r := range p.ages.runs {
		out = append(out, r.Range)
	}
	return out
}

// interval waits, samples, and pages out; pending are the cold bytes that the pace left for later.
func (p *pager) interval(ctx context.Context) (s Step, pending uint64, err error) {
	length := max(p.older/intervalsOf, time.Duration(float64(p.took)/maxShare))
	if err := p.clock.until(ctx, p.begin+p.ages.Length()+length); err != nil {
		return s, 0, err
	}
	visit := p.ages.end(p.clock.now() - p.begin)
	if err := p.sample(visit); err != nil {
		return s, 0, err
	}
	all, err := p.read()
	if err != nil {
		return s, 0, err
	}
	before := p.ages.bytes(pagedOut)
	old := p.old(all)
	s.Returned, s.Out = p.ages.settle()
	p.ages.extend(all.ranges)
	p.total.Returned += s.Returned
	p.pace.adjust(before, s.Returned)
	s.After, s.Rate = p.ages.Length(), p.pace.now
	s.Paged, pending, err = p.pageOut(ctx, old, p.begin+p.ages.Length()+length)
	s.Out += s.Paged
	return s, pending, err
}

// old are the candidates that are old enough.
func (p *pager) old(all candidates) (pages []uint64) {
	all.each(func(page uint64) {
		run, i := p.ages.find(page)
		if run == nil {
			return
		}
		run.state[i] |= candidate
		age, present := p.ages.Of(page)
		if present && age >= p.older && (run.state[i]&returned == 0 || age >= backoff*p.older) {
			pages = append(pages, page)
		}
	})
	return pages
}

// chunk is for how long pages of one advice are enough.
const chunk = 100 * time.Millisecond

// pageOut gives the candidates to the kernel, a chunk at a time, until `end`.
func (p *pager) pageOut(ctx context.Context, pages []uint64, end time.Duration) (out, pending uint64, err error) {
	size := p.ages.page
	most := int(p.pace.now / uint64(time.Second/chunk) / size)
	if p.pace.now > 0 {
		most = max(most, 1)
	}
	for start := p.clock.now(); len(pages) > 0 && most > 0 && start < end; start += chunk {
		if err := p.room(uint64(most) * size); err != nil {
			return out, uint64(len(pages)) * size, err
		}
		n := min(most, len(pages))
		bytes, err := p.chunk(pages[:n])
		out, pages = out+bytes, pages[n:]
		if err != nil {
			return out, uint64(len(pages)) * size, err
		}
		if len(pages) > 0 {
			if err := p.clock.until(ctx, start+chunk); err != nil {
				return out, uint64(len(pages)) * size, err
			}
		}
	}
	return out, uint64(len(pages)) * size, nil
}

// room is an error where swap would be filled up: other programs need it too.
func (p *pager) room(bytes uint64) error {
	swap, err := p.swap()
	if err != nil {
		return err
	}
	if swap.Free < bytes+swap.Total/16 {
		return fmt.Errorf("swap is nearly full: %s of %s are free", term.Bytes(swap.Free), term.Bytes(swap.Total))
	}
	return nil
}

// chunk pages out memory without an access since the sample, and returns the bytes that left memory.
func (p *pager) chunk(pages []uint64) (uint64, error) {
	idle, err := p.idle(pages)
	if err != nil || len(idle) == 0 {
		return 0, err
	}
	if err := p.source.PageOut(idle); err != nil {
		return 0, err
	}
	out := uint64(0)
	for _, r := range idle {
		p.ages.mark(r, pagedOut)
		out += r.Bytes()
	}
	kept := uint64(0)
	err = p.source.Peek(idle, func(r Range, _ bool) {
		p.ages.unmark(r, pagedOut)
		kept += r.Bytes()
	})
	p.total.Kept += kept
	p.total.Out += out - kept
	if err == nil && p.total.Out == 0 {
		err = errKept
	}
	return out - kept, err
}

// idle are the pages that were not accessed since the last sample.
func (p *pager) idle(pages []uint64) (out []Range, err error) {
	ranges := make([]Range, len(pages))
	for i, page := range pages {
		ranges[i] = Range{Start: page, End: page + p.ages.page}
	}
	err = p.source.Peek(ranges, func(r Range, touched bool) {
		if !touched {
			out = append(out, r)
		}
	})
	return out, err
}
