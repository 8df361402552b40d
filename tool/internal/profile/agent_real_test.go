package profile

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	pprofile "github.com/google/pprof/profile"
)

const busy = `#include <stdlib.h>
#include <unistd.h>
static void* volatile kept[1 << 16];
__attribute__((noinline)) void* busy_site(unsigned i) { void* p = malloc(100 + i % 1000); return p ? p : (void*)&kept; }
int main(void) { for (unsigned i = 0;; ++i) { unsigned k = i * 2654435761u >> 16; free(kept[k]); kept[k] = busy_site(i); if (i % 1000 == 0) usleep(1000); } }
`

// busyProgram starts one that allocates without end.
func busyProgram(t *testing.T) int {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "busy.c"), filepath.Join(dir, "busy")
	if err := os.WriteFile(source, []byte(busy), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-O2", "-g", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Library(t))
	testkit.StartProcess(t, cmd)
	for range 200 {
		if target, err := inspect.Open(cmd.Process.Pid); err == nil {
			target.Close()
			return cmd.Process.Pid
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the program never ran under the library")
	return 0
}

// The agent switches sampling on, sends one profile a round with names, and switches it off at its end.
func TestAgentOverARealProcess(t *testing.T) {
	pid := busyProgram(t)
	var complaints bytes.Buffer
	sent := make(chan PushSeries, 100)
	ctx, stop := context.WithCancel(t.Context())
	agent := &Collector{
		AgentConfig: AgentConfig{Every: 200 * time.Millisecond, Rate: 4 << 10, Processes: 1, Stacks: 100, CPUShare: 1},
		Proc:        procfs.Live(),
		Discover:    func(int) ([]int, int, error) { return []int{pid}, 0, nil },
		Send: func(_ context.Context, s PushSeries) error {
			sent <- s
			return nil
		},
		Finder: func() *symbol.Finder { return &symbol.Finder{FunctionsOnly: true} },
		Log:    log.New(io.Writer(&complaints), "", 0),
		CPU:    used,
	}
	ended := make(chan error)
	go func() { ended <- agent.Run(ctx) }()
	var last *pprofile.Profile
	for range 5 {
		s := <-sent
		if !slices.Contains(s.labels(), PushLabel{Name: "service_name", Value: "busy"}) {
			t.Fatalf("labels %v", s.labels())
		}
		last = s.Profile
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if complaints.Len() > 0 {
		t.Error(complaints.String())
	}
	found := false
	for _, s := range last.Sample {
		names := Names(s)
		found = found || names[0] == "busy_site" && s.Value[Index(last, AllocSpace)] > 0
	}
	if !found {
		t.Errorf("nothing that busy_site allocates was sent: %v", last)
	}
	target, err := inspect.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for range 100 { // it acts at its next slow path
		if samples, err := target.Samples(); err != nil || !samples.Active {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("sampling was left on")
}
