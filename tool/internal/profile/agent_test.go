package profile

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"

	pprofile "github.com/google/pprof/profile"
	"github.com/spf13/pflag"
)

// heap has n stacks, of which number i holds i KiB.
func heap(n int, allocated float64) *pprofile.Profile {
	s := &inspect.Samples{Rate: 1}
	for i := range n {
		bytes := float64(i+1) * 1024
		s.Stacks = append(s.Stacks, inspect.Stack{
			Frames:    []uint64{uint64(0x1000 + 16*i)},
			Allocated: inspect.Amount{Objects: 1, Bytes: bytes + allocated}, Freed: inspect.Amount{Bytes: allocated},
		})
	}
	return Heap{Samples: s, Taken: time.Unix(100+int64(allocated), 0)}.Build().Profile
}

func sum(p *pprofile.Profile, name string) (total int64) {
	for _, s := range p.Sample {
		total += s.Value[Index(p, name)]
	}
	return total
}

// Live bytes are sent in full, allocated bytes only since the last round.
func TestSinceTheLastRound(t *testing.T) {
	d, err := Since(heap(10, 5), heap(10, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got := sum(d, InUseSpace); got != 55*1024 {
		t.Errorf("in use %d", got)
	}
	if got := sum(d, AllocSpace); got != 20 {
		t.Errorf("allocated since %d", got)
	}
	if d.DurationNanos != 2e9 {
		t.Errorf("over %d ns", d.DurationNanos)
	}
}

// A profile is bounded and loses no byte.
func TestReduceKeepsTheSums(t *testing.T) {
	p := heap(100, 0)
	before := sum(p, InUseSpace)
	r := Reduce(p, 10)
	if len(r.Sample) != 10 || sum(r, InUseSpace) != before || r.CheckValid() != nil {
		t.Errorf("%d samples, %d of %d bytes, %v", len(r.Sample), sum(r, InUseSpace), before, r.CheckValid())
	}
	if r.Sample[0].Value[Index(r, InUseSpace)] != 100*1024 {
		t.Error("the largest stack is not the first")
	}
	if Reduce(heap(3, 0), 10).Sample[2].Location[0].Address == 0 {
		t.Error("a small profile was reduced")
	}
}

func TestRoundsKeepTheirShareOfTheCPU(t *testing.T) {
	if got := Pause(3*time.Second, 0.02); got != 150*time.Second {
		t.Errorf("a round of 3 s takes %v", got)
	}
}

func TestWrongOptionsAreReported(t *testing.T) {
	for args, want := range map[string]string{
		"": "give the server", "--push x": "no address", "--push http://h --every 1ms": "1s or more",
		"--push http://h --cpu-share 2": "--cpu-share", "--push http://h --label x": "name=value",
		"--push http://h --protocol smtp": "pyroscope, parca", "--push http://h --command (": "--command",
		"--push http://h --rate 0": "--rate", "--push http://h --headers /nowhere/at/all": "read the headers",
	} {
		fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		act := agentSetup(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		err := act(t.Context(), cli.Env{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestTheUnitStartsTheAgentAsItIs(t *testing.T) {
	unit, err := os.ReadFile("../../../integrations/systemd/granary-profile-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=\S*/granary profile agent (.*)$`).FindSubmatch(unit)
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	agentSetup(fs)
	if err := fs.Parse(strings.Fields(string(start[1]))); err != nil || fs.NArg() > 0 {
		t.Errorf("%s: %v", start[1], err)
	}
	for _, call := range []string{"process_vm_readv", "process_vm_writev"} {
		if !strings.Contains(string(unit), call) {
			t.Errorf("the unit forbids %s", call)
		}
	}
}
