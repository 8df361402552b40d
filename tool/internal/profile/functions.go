package profile

import (
	"cmp"
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"

	"github.com/google/pprof/profile"
)

// A Recording samples a process under any allocator, to tell the CPU time of each function.
type Recording struct {
	proc    procfs.FS
	pid     int
	cpu     CPU
	code    []cpushare.Range // of the allocator
	sampler *cpushare.Sampler
	begin   time.Time
}

// Record begins to sample all threads of a process, also the threads and children to come.
func Record(proc procfs.FS, pid int, c allocators.Allocator) (*Recording, error) {
	code, err := cpushare.CodeOf(proc, pid, c)
	if err != nil {
		return nil, err
	}
	r := &Recording{proc: proc, pid: pid, code: code, cpu: CPU{Library: c.Path}, begin: time.Now()}
	if err := r.Learn(); err != nil {
		return nil, err
	}
	r.sampler, err = cpushare.StartStacks(proc, pid, perSecond, r.exits().walk)
	return r, err
}

// MayRecord returns an error if the kernel gives this user no samples.
func MayRecord(proc procfs.FS) error {
	s, err := cpushare.Start(proc, []int{os.Getpid()}, perSecond)
	if err == nil {
		s.Stop(nil)
	}
	return err
}

// exits are the frame rules of every mapped file. A file without call frame information ends a stack.
func (r *Recording) exits() (all exits) {
	files := map[string][]inspect.Module{}
	for _, m := range r.cpu.Modules {
		files[m.Path] = append(files[m.Path], m)
	}
	for path, modules := range files {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		if e, err := newExit(f, modules); err == nil {
			all = append(all, e)
		}
		f.Close()
	}
	return all
}

// Learn reads which files the process has mapped. A library that is loaded later is unknown until the next
// call. The process must run.
func (r *Recording) Learn() error {
	maps, err := r.proc.Maps(r.pid)
	if err != nil {
		return err
	}
	var modules []inspect.Module
	for _, m := range maps {
		if len(m.Perms) > 2 && m.Perms[2] == 'x' && strings.HasPrefix(m.Path, "/") {
			modules = append(modules, inspect.Module{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path, BuildID: r.buildID(m.Path)})
		}
	}
	if len(modules) > 0 { // a process that is ending has none
		slices.SortFunc(modules, func(a, b inspect.Module) int { return cmp.Compare(a.Start, b.Start) })
		r.cpu.Modules = modules
	}
	return nil
}

func (r *Recording) buildID(path string) string {
	if i := slices.IndexFunc(r.cpu.Modules, func(m inspect.Module) bool { return m.Path == path }); i >= 0 {
		return r.cpu.Modules[i].BuildID
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return symbol.BuildID(f)
}

// Stop ends the sampling and returns the profile with the names that f finds.
func (r *Recording) Stop(ctx context.Context, f *symbol.Finder) *profile.Profile {
	_ = r.Learn() // a process that has ended is known from before
	r.cpu.Chains, r.cpu.Kernel = r.sampler.StopChains()
	r.cpu.Taken, r.cpu.For = time.Now(), time.Since(r.begin)
	p := r.cpu.functions()
	f.Symbolize(ctx, p)
	r.nameRest(p)
	return p
}

// functions makes a profile of CPU time by function: each sample where it was taken, and its callers as far
// as they are known.
func (c CPU) functions() *profile.Profile {
	b := c.builder()
	for _, chain := range c.Chains {
		callers := chain.Above
		if c.inside(chain.Address) && chain.Caller != 0 {
			callers = c.callers(chain)
		}
		returns := []uint64{chain.Address + 1}
		for _, w := range callers {
			if !c.code(w - 1) {
				break
			}
			returns = append(returns, w)
		}
		b.add(b.frames(returns), float64(chain.Count), float64(chain.Count)*float64(b.p.Period))
	}
	b.add(b.named(KernelFrame), float64(c.Kernel), float64(c.Kernel)*float64(b.p.Period))
	return b.p
}

// nameRest names code without symbols by its file, so that it is one function and not one for each address.
func (r *Recording) nameRest(p *profile.Profile) {
	functions := map[string]*profile.Function{}
	for _, l := range p.Location {
		if len(l.Line) > 0 {
			continue
		}
		name := "[unknown]"
		switch {
		case slices.ContainsFunc(r.code, func(c cpushare.Range) bool { return c.Start <= l.Address && l.Address < c.End }):
			name = AllocatorFrame
		case l.Mapping != nil && l.Mapping.File != "":
			name = "[" + filepath.Base(l.Mapping.File) + "]"
		}
		if functions[name] == nil {
			functions[name] = &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name}
			p.Function = append(p.Function, functions[name])
		}
		l.Line = []profile.Line{{Function: functions[name]}}
	}
}

// Flat is the value of each function without its callees, and the sum.
func Flat(p *profile.Profile, index int) (by map[string]int64, total int64) {
	by = map[string]int64{}
	for _, s := range p.Sample {
		total += s.Value[index]
		if names := Names(s); len(names) > 0 {
			by[names[0]] += s.Value[index]
		}
	}
	return by, total
}
