package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/symbol"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"connectrpc.com/connect"
	pprofile "github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

// asTool lets the test binary be the command, as another process whose time and memory can be measured.
const asTool = "GRANARY_PROFILE_TEST_IS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		os.Exit(cli.Main(context.Background(), cli.Live("test"), []cli.Command{Agent}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// roundsOver is an agent over processes of a name, whose rounds a test makes; send receives what it sends.
func roundsOver(t *testing.T, name string, rate uint64, send func(PushSeries) error) (*Collector, *bytes.Buffer) {
	t.Helper()
	discover, err := agentOptions{command: "^" + name + "$"}.discover(procfs.Live())
	if err != nil {
		t.Fatal(err)
	}
	builds, said := symbol.NewBuilds(), &bytes.Buffer{}
	a := &Collector{
		AgentConfig: AgentConfig{Every: time.Second, Rate: rate, Processes: 1000, Stacks: 100, CPUShare: 1},
		Proc:        procfs.Live(), Discover: discover, CPU: used, Log: log.New(said, "", 0),
		Send:   func(_ context.Context, s PushSeries) error { return send(s) },
		Finder: func() *symbol.Finder { return &symbol.Finder{FunctionsOnly: true, Builds: builds} },
		known:  map[int]*agentProcess{}, logged: map[string]bool{},
	}
	t.Cleanup(a.stop)
	return a, said
}

// Each process that stays has one profile a round, which holds what it holds, also in other PID namespaces; what
// belongs to processes that ended is let go.
func TestEveryProcessOfACrowdIsProfiledOnce(t *testing.T) {
	many := testkit.Start(t, "work", 20, testkit.Apart(20), 20)
	seen := map[int][]*pprofile.Profile{}
	agent, said := roundsOver(t, many.Name, 4<<10, func(s PushSeries) error {
		seen[s.Resource.PID] = append(seen[s.Resource.PID], s.Profile)
		return nil
	})
	agent.round(t.Context()) // which asks them to begin
	for begun := 0; begun < len(many.Stay); {
		time.Sleep(100 * time.Millisecond)
		clear(seen)
		agent.round(t.Context())
		begun = 0
		for _, m := range many.Stay {
			begun += len(seen[m.PID])
		}
	}
	for _, m := range many.Stay {
		if len(seen[m.PID]) != 1 {
			t.Errorf("process %d has %d profiles in one round", m.PID, len(seen[m.PID]))
			continue
		}
		// Besides what it holds, there may be its block of 3 MiB, and the error of sampling every 4 KiB.
		held, most := int64(m.Said["live"]), int64(m.Said["live"]+4<<20)
		if got := sum(seen[m.PID][0], InUseSpace); got < held*9/10 || got > most {
			t.Errorf("process %d: %d bytes are in use by its profile, it holds %d", m.PID, got, held)
		}
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
	many.EndShort()
	for range 100 {
		if agent.round(t.Context()); len(agent.known) == len(many.Stay) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(agent.known) != len(many.Stay) {
		t.Errorf("%d processes are known, %d run", len(agent.known), len(many.Stay))
	}
	agent.stop()
	for _, m := range many.Stay {
		waitUntilOff(t, m.PID)
	}
}

func waitUntilOff(t *testing.T, pid int) {
	t.Helper()
	target, err := inspect.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for range 100 { // it acts when it next allocates
		if samples, err := target.Samples(); err != nil || !samples.Active {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("sampling was left on in process %d", pid)
}

// What was allocated while the server did not answer is in the next profile.
func TestNothingIsLostWhileTheServerIsAway(t *testing.T) {
	busyProgram(t)
	var allocated int64
	sent, away := 0, false
	agent, said := roundsOver(t, "busy", 4<<10, func(s PushSeries) error {
		if away {
			return errors.New("the server is away")
		}
		sent++
		allocated += sum(s.Profile, AllocSpace)
		return nil
	})
	for sent < 2 {
		agent.round(t.Context())
		time.Sleep(50 * time.Millisecond)
	}
	away = true
	agent.round(t.Context())
	away = false
	time.Sleep(50 * time.Millisecond)
	agent.round(t.Context())
	for _, p := range agent.known {
		if want := sum(p.previous, AllocSpace); allocated != want {
			t.Errorf("%d bytes of allocations were sent in %d profiles, there were %d", allocated, sent, want)
		}
	}
	if !strings.Contains(said.String(), "the server is away") {
		t.Errorf("it says %q", said.String())
	}
}

// A process that does not allocate does not answer: the others do not wait for it, and it is no error.
func TestIdleProcessesDoNotHoldUpTheOthers(t *testing.T) {
	many := testkit.Start(t, "hold", 5, 0, 0)
	agent, said := roundsOver(t, many.Name, DefaultRate, func(PushSeries) error { return nil })
	for range 3 {
		agent.round(t.Context())
	}
	if len(agent.known) != 5 || said.Len() > 0 {
		t.Errorf("%d processes are known: %s", len(agent.known), said.String())
	}
}

// counted is a server of Pyroscope's own code that counts profiles by PID.
type counted struct {
	sync.Mutex
	profiles map[string]int
}

func (c *counted) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	c.Lock()
	defer c.Unlock()
	for _, l := range r.Msg.Series[0].Labels {
		if l.Name == "pid" {
			c.profiles[l.Value]++
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func (c *counted) of(pid int) int {
	c.Lock()
	defer c.Unlock()
	return c.profiles[fmt.Sprint(pid)]
}

// The cost of the agent at each size of $GRANARY_SCALE, as another process: the program $GRANARY_TOOL, or this test.
func TestTheCostOfTheAgent(t *testing.T) {
	if os.Getenv("GRANARY_SCALE") == "" {
		t.Skip("a measurement: run make scale")
	}
	for _, n := range testkit.Sizes(t) {
		t.Run(fmt.Sprint(n), func(t *testing.T) { measureAgent(t, n) })
	}
}

func measureAgent(t *testing.T, n int) {
	stay := n / 2
	many := testkit.Start(t, "work", max(1, stay), testkit.Apart(stay), n-stay) // the first one tells the rounds
	server := &counted{profiles: map[string]int{}}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(server))
	listener := httptest.NewServer(mux)
	defer listener.Close()
	tool, environ := os.Getenv("GRANARY_TOOL"), os.Environ()
	if tool == "" {
		tool, environ = os.Args[0], append(environ, asTool+"=1")
	}
	cmd := exec.Command(tool, "profile", "agent", "--push", listener.URL, "--every", "2s", "--cpu-share", "1", "--max-processes", "1000", "--command", "^"+many.Name+"$")
	cmd.Env, cmd.Stderr = environ, os.Stderr
	testkit.StartProcess(t, cmd)
	rounds := func(k int) {
		for server.of(many.Stay[0].PID) < k {
			time.Sleep(50 * time.Millisecond)
		}
	}
	rounds(3)
	before := testkit.UsageOf(t, cmd.Process.Pid)
	rounds(8)
	after := testkit.UsageOf(t, cmd.Process.Pid)
	t.Logf("%d processes: %.3f s of CPU a round, RSS %.1f MiB, peak %.1f MiB", n, (after.CPUSeconds-before.CPUSeconds)/5, float64(after.RSS)/(1<<20), float64(after.Peak)/(1<<20))
	for _, m := range many.Stay {
		if server.of(m.PID) < 5 {
			t.Errorf("process %d has %d profiles after 8 rounds", m.PID, server.of(m.PID))
		}
	}
}
