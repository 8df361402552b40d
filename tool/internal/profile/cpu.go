package profile

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/google/pprof/profile"
)

// perSecond is how often a busy CPU is sampled; no divisor of a usual clock.
const perSecond = 499

// The names of frames that are not functions.
const (
	OutsideFrame   = "[outside the allocator]"
	KernelFrame    = "[kernel]"
	AllocatorFrame = "[allocator]"
)

// CPU samples where the process spends its time, and attributes the allocator's samples to its callers.
func (o options) cpu(ctx context.Context, env cli.Env, arg string) (err error) {
	s, err := inspect.OpenSubject(procfs.Live(), arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.PID == 0 {
		return cli.Usagef("--cpu needs a running process, not a core file")
	}
	if sharedLibrary(s.Library) == "" {
		return fmt.Errorf("the allocator is linked into %s, where its code cannot be told from the program's: run the program with the library preloaded", s.Library)
	}
	modules, err := s.Modules()
	if err != nil {
		return err
	}
	slices.SortFunc(modules, func(a, b inspect.Module) int { return cmp.Compare(a.Start, b.Start) })
	c := CPU{Title: s.Title, Library: s.Library, Modules: modules}
	way, err := c.exit(env, s)
	if err != nil {
		return err
	}
	sampler, err := cpushare.StartChains(procfs.Live(), s.PID, perSecond, way.unwind)
	if err != nil {
		return err
	}
	begin := time.Now()
	wait := time.Duration(o.seconds * float64(time.Second))
	if _, terminal := term.Width(env.Stderr); terminal {
		fmt.Fprintf(env.Stderr, "sampling for %v; Ctrl-C ends it and prints the result\n", wait)
	}
	f := finder(env, s) // while the process is there
	alive := sleep(ctx, s.PID, wait)
	c.Chains, c.Kernel = sampler.StopChains()
	c.Taken, c.For = time.Now(), time.Since(begin)
	words, err := c.words(s, alive)
	if err != nil {
		return err
	}
	p := c.Build()
	f.Symbolize(ctx, p)
	return o.out.write(ctx, env, p, Kind{Type: "cpu"}, words)
}

// FewestSamples is how many a share needs to say anything.
const FewestSamples = 20

// words returns the lines above the profile.
func (c CPU) words(s *inspect.Subject, alive bool) ([]string, error) {
	inside, all := c.Inside()
	during := c.For.Round(100 * time.Millisecond)
	if all == 0 {
		return nil, fmt.Errorf("process %d used no CPU time in these %v", s.PID, during)
	}
	words := []string{fmt.Sprintf("%s: the allocator takes %s of its CPU time (%s samples in %v)", s.Title,
		term.Percent(float64(inside), float64(all)), term.Count(uint64(all)), during)}
	if all < FewestSamples {
		words[0] = fmt.Sprintf("%s: %s in %v, too few to tell the allocator's share of its CPU time; sample for longer with --seconds",
			s.Title, term.Counted(all, "sample"), during)
	}
	if !alive {
		words = append(words, "the process ended while it was sampled")
	}
	return words, nil
}

// exit is the frame rule that leaves the allocator's code.
func (c CPU) exit(env cli.Env, s *inspect.Subject) (*exit, error) {
	var own []inspect.Module
	for _, m := range c.Modules {
		if m.Path == c.Library {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("%s is not mapped in process %d", c.Library, s.PID)
	}
	file, err := finder(env, s).Open(&profile.Mapping{Start: own[0].Start, Limit: own[0].End, File: c.Library})
	if err != nil {
		return nil, fmt.Errorf("read the allocator's code: %w", err)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the allocator's code: %w", err)
	}
	return newExit(f, own)
}

// callers are the return addresses outside the allocator: the first by its call frame information, the
// others by frame pointers, as long as these lead to code.
func (c CPU) callers(chain cpushare.Chain) []uint64 {
	out := []uint64{chain.Caller}
	for _, w := range chain.Above {
		switch {
		case w == chain.Caller:
			out = out[:1]
		case !c.code(w - 1):
			return out
		case !c.inside(w - 1):
			out = append(out, w)
		}
	}
	return out
}

// A CPU is where a process was found, some hundred times a second.
type CPU struct {
	Title   string
	Library string           // path of the allocator
	Modules []inspect.Module // by address
	Taken   time.Time
	For     time.Duration
	Chains  []cpushare.Chain
	Kernel  int
}

// inside is true for an address of the allocator's code, code for one of any.
func (c CPU) inside(address uint64) bool {
	m, ok := c.module(address)
	return ok && m.Path == c.Library
}

func (c CPU) code(address uint64) bool {
	_, ok := c.module(address)
	return ok
}

func (c CPU) module(address uint64) (inspect.Module, bool) {
	i, _ := slices.BinarySearchFunc(c.Modules, address, func(m inspect.Module, a uint64) int { return cmp.Compare(m.Start, a+1) })
	if i == 0 || address >= c.Modules[i-1].End {
		return inspect.Module{}, false
	}
	return c.Modules[i-1], true
}

// Inside returns the number of samples in the allocator, and the number of all samples.
func (c CPU) Inside() (inside, all int) {
	all = c.Kernel
	for _, chain := range c.Chains {
		all += chain.Count
		if c.inside(chain.Address) {
			inside += chain.Count
		}
	}
	return inside, all
}

// builder is that of an empty profile of CPU time.
func (c CPU) builder() *builder {
	b := newBuilder(Heap{Title: c.Title, Taken: c.Taken, Modules: c.Modules, Samples: &inspect.Samples{For: c.For}})
	b.p.SampleType = []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}
	b.p.DefaultSampleType = "cpu"
	b.p.PeriodType = &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	b.p.Period = int64(time.Second) / perSecond
	return b
}

// Build makes a profile of CPU time: the allocator by its callers, the rest as one.
func (c CPU) Build() *profile.Profile {
	b := c.builder()
	add := func(locations []*profile.Location, count int) {
		b.add(locations, float64(count), float64(count)*float64(b.p.Period))
	}
	outside := 0
	for _, chain := range c.Chains {
		if !c.inside(chain.Address) {
			outside += chain.Count
			continue
		}
		stack := b.named(AllocatorFrame)
		if chain.Caller != 0 {
			stack = append(stack, b.frames(c.callers(chain))...)
		}
		add(stack, chain.Count)
	}
	add(b.named(OutsideFrame), outside)
	add(b.named(KernelFrame), c.Kernel)
	return b.p
}
