package runner

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cpushare"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/symbol"
)

func TestTheCPUProfileOfARunAddsUpToWhatTheKernelCharges(t *testing.T) {
	if err := profile.MayRecord(procfs.Live()); errors.Is(err, cpushare.ErrNotAllowed) {
		t.Skip(err)
	}
	if err := measure.Adopt(); err != nil {
		t.Fatal(err)
	}
	spec := sleeper(t)
	spec.Name, spec.Path, spec.Args = "shell", "/bin/sh", []string{"-c", "while :; do :; done"}
	burn := Phase{Name: "burn", Do: func(ctx context.Context, v *Visit) error { return Sleep(ctx, time.Second) }}
	dir := t.TempDir()
	shared := &Shared{Dir: t.TempDir(), Environ: os.Environ(), CPU: &cpuProfiles{dir, symbol.NewFinder(os.Getenv)}}
	var charged float64
	for round := range 2 {
		sample, err := serve(spec, burn).measure(context.Background(), shared, procfs.Live(), glibc(t), round, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		seconds, _ := sample.Get("whole run", MetricCPU)
		charged += seconds
	}
	p, runs, err := result.ReadCPU(dir, "glibc")
	if err != nil || p == nil || runs != 2 {
		t.Fatalf("%v of %d runs, %v", p, runs, err)
	}
	_, total := profile.Flat(p, profile.Index(p, "cpu"))
	if sampled := float64(total) / 1e9; sampled < 0.7*charged-0.1 || sampled > 1.3*charged+0.1 {
		t.Errorf("the samples add up to %.2f s; the kernel charges %.2f s", sampled, charged)
	}
}
