package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"

	pprof "github.com/google/pprof/profile"
)

// Shared holds the data that all visits of a run use. It is prepared once and then only read.
type Shared struct {
	Dir     string // temporary
	Values  Values
	Paths   map[string]string // of the needed programs
	Environ []string
	CPU     *cpuProfiles // nil: no profiles are wanted
}

// Tool runs a program without any allocator to its end.
func (s *Shared) Tool(ctx context.Context, path string, args ...string) (string, error) {
	return measure.Output(ctx, path, args, measure.Clean(s.Environ))
}

// ToolAs is Tool as another user, for programs that refuse root.
func (s *Shared) ToolAs(ctx context.Context, user, path string, args ...string) error {
	credential, err := Credential(user)
	if err != nil {
		return err
	}
	p, err := measure.Start(measure.Spec{Path: path, Args: args, Env: measure.Clean(s.Environ), Dir: s.Dir, Log: filepath.Join(s.Dir, "tool.log"), Credential: credential})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(0)
		return ctx.Err()
	}
	if _, err := p.Output(); err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	return nil
}

// A Visit is one run of one allocator through the phases.
type Visit struct {
	*Shared
	Allocator allocators.Allocator
	Round     int
	Dir       string // temporary, of this visit
	Server    *Server
	proc      procfs.FS
	sample    result.Sample
	timeline  *timeline
	recording *profile.Recording // of the server that runs; nil: none
	profiles  []*pprof.Profile   // of servers that have ended
	phase     string
	peak      float64 // the largest RSS since the start of the visit, in bytes
	exact     bool    // the kernel's peak counts from the last resetPeak
}

// Start starts the server under the allocator. It returns after the server is ready and the check has
// shown that the server calls the allocator's malloc.
func (v *Visit) Start(ctx context.Context, spec ServerSpec) error {
	v.Server = &Server{spec: spec, proc: v.proc, dir: v.Dir}
	defer func() { v.timeline.follow(v.Server) }()
	if spec.User != "" {
		if err := Give(v.Dir, spec.User); err != nil {
			return err
		}
	}
	if err := v.Server.start(ctx, v.Environ, v.Allocator); err != nil {
		return err
	}
	return v.record(ctx)
}

// Give changes the owner of a folder and its contents if the tool runs as root. Without root it does
// nothing: the servers then run as the tool's own user.
func Give(dir, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	credential, err := ids(name)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(credential.Uid), int(credential.Gid)))
	})
}

// Stop ends the server and returns its total use of CPU time and memory.
func (v *Visit) Stop() {
	v.endRecord()
	if v.Server != nil {
		v.Server.Stop()
	}
}

// Set records a value of the current phase.
func (v *Visit) Set(metric string, value float64) { v.sample.Set(v.phase, metric, value) }

// Get returns a value that was recorded.
func (v *Visit) Get(phase, metric string) (float64, bool) { return v.sample.Get(phase, metric) }

// Trace records a series of the current phase.
func (v *Visit) Trace(metric, unit string, points [][2]float64) {
	v.sample.Trace(result.Series{Phase: v.phase, Metric: metric, Unit: unit, Points: points})
}

// Count records a histogram of the current phase.
func (v *Visit) Count(h result.Histogram) {
	h.Phase = v.phase
	v.sample.Count(h)
}

// FreePort returns a loopback port on which no program listens at present.
func (v *Visit) FreePort() (int, error) { return measure.FreePort() }

// A Load is a running load; Watch passes it to the function that sends the load.
type Load struct {
	watch    *Watch
	visit    *Visit
	from, to float64
	peak     float64 // the kernel's, from Begin to End; of a Tree, the control group's
}

// Begin marks the start of the measured load; the time before it is preparation.
func (l *Load) Begin() {
	l.visit.resetPeak()
	l.from = l.watch.read()
}

// End marks the end of the measured load.
func (l *Load) End() {
	l.to = l.watch.read()
	l.peak = l.visit.kernelPeak()
}

// resetPeak lets the kernel's peak of the server begin anew; of a Tree, the peak of its control group. Where that is not
// allowed, the peak of a load is the largest sample, and that of a group unknown.
func (v *Visit) resetPeak() {
	v.exact = false
	if v.Server.spec.Once { // it would reset ru_maxrss of a program, too
		return
	}
	if v.Server.spec.Tree {
		v.exact = v.Server.group != nil && v.Server.group.ResetPeak()
		return
	}
	if v.notePeak() != nil {
		return
	}
	v.exact = v.proc.ResetPeak(v.Server.PID()) == nil
}

// kernelPeak is the kernel's peak since resetPeak; 0 if the kernel has none.
func (v *Visit) kernelPeak() float64 {
	if !v.exact {
		return 0
	}
	if v.Server.spec.Tree {
		return v.Server.groupPeak()
	}
	memory, err := v.Server.Memory()
	if err != nil {
		return 0
	}
	return float64(memory.Peak)
}

// Watch samples the server while work runs, and records the series.
func (v *Visit) Watch(ctx context.Context, work func(context.Context, *Load) error) (Between, error) {
	w := watch(ctx, v.Server)
	load := &Load{watch: w, visit: v}
	v.resetPeak()
	err := work(ctx, load)
	if load.to == 0 {
		load.peak = v.kernelPeak()
	}
	w.stop()
	if w.others {
		v.sample.Note(fmt.Sprintf("%s starts other processes, whose memory is not counted; write `processes: tree` into the plan to count all, or `one` if that is meant", v.Server.spec.Name))
	}
	for _, point := range w.rss {
		v.peak = max(v.peak, point[1])
	}
	for _, series := range w.series(v.phase) {
		v.sample.Trace(series)
	}
	if load.to == 0 {
		load.to = time.Since(w.start).Seconds()
	}
	b := w.between(load.from, load.to)
	switch {
	case load.peak > 0 && v.Server.spec.Tree:
		b.PeakGroup = load.peak
	case load.peak > 0:
		b.PeakRSS = load.peak
		v.peak = max(v.peak, load.peak)
	}
	return b, err
}

// Settle samples the RSS for a time without sending requests, and returns the last value in bytes.
func (v *Visit) Settle(ctx context.Context, d time.Duration) (float64, error) {
	b, err := v.Watch(ctx, func(ctx context.Context, _ *Load) error { return Sleep(ctx, d) })
	if err != nil {
		return 0, err
	}
	return b.EndRSS, nil
}

// RSS returns the present RSS in bytes, from smaps_rollup.
func (v *Visit) RSS() (float64, error) {
	m, err := v.Server.Memory()
	return float64(m.RSS), err
}

// Sleep waits unless ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// measure runs one allocator through the phases. It returns the values of the finished phases even if it
// also returns an error.
func (s Scenario) measure(ctx context.Context, shared *Shared, proc procfs.FS, c allocators.Allocator, round int, tick func(string)) (result.Sample, error) {
	dir, err := os.MkdirTemp("", "granary-"+s.Name+"-")
	if err != nil {
		return result.Sample{}, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	v := &Visit{Shared: shared, Allocator: c, Round: round, Dir: dir, proc: proc, timeline: startTimeline()}
	noise := startNoise(proc)
	defer func() {
		v.Stop()
		v.timeline.stop()
	}()
	for _, p := range s.Phases(shared.Values) {
		v.phase = p.Name
		v.timeline.enter(p.Name)
		if err := p.Do(ctx, v); err != nil {
			if v.Server != nil && ctx.Err() == nil {
				err = v.Server.explain(err)
			}
			return v.sample, fmt.Errorf("%s: %w", p.Name, err)
		}
		tick(p.Name)
	}
	v.Stop()
	if err := shared.CPU.keep(c, v.profiles); err != nil {
		return v.sample, err
	}
	for _, series := range v.timeline.stop() {
		v.sample.Trace(series)
	}
	v.sample.Ran(noise.stop())
	return v.sample, nil
}
