package scenarios

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"

	"golang.org/x/sys/unix"
)

// Scenario is the service as a scenario, run like the built-in ones.
func (s Service) Scenario() runner.Scenario {
	rounds := measure.Rounds{Full: 5, Quick: 3}
	if s.Rounds > 0 {
		rounds = measure.Rounds{Full: s.Rounds, Quick: s.Rounds}
	}
	return runner.Scenario{
		Name: s.Name, Rounds: rounds, Needs: []runner.Need{{Program: s.Command[0], Package: "the package that has it, or correct the plan's `command`"}},
		Params: []runner.Param{{Name: "settle", Kind: runner.Duration, Full: s.settle(), Help: "how long the service is left alone before its memory is read"}},
		Phases: func(runner.Values) []runner.Phase { return s.phases() },
	}
}

func (s Service) settle() string {
	if s.Settle == 0 {
		return "5s"
	}
	return s.Settle.String()
}

// A serviceVisit is the service in one visit, with the values of $PORT and $DIR.
type serviceVisit struct {
	Service
	port int
	dir  string
}

func (s Service) phases() []runner.Phase {
	visit := &serviceVisit{Service: s}
	if len(s.Loads) == 0 { // a program that ends by itself
		return []runner.Phase{{Name: "the program", Rows: s.programRows(), Do: func(ctx context.Context, v *runner.Visit) error {
			if err := visit.enter(ctx, v); err != nil {
				return err
			}
			_, err := v.Program(ctx, visit.spec(v))
			return err
		}}}
	}
	list := []runner.Phase{runner.StartPhase(func(ctx context.Context, v *runner.Visit) error {
		if err := visit.enter(ctx, v); err != nil {
			return err
		}
		return v.Start(ctx, visit.spec(v))
	})}
	for _, load := range s.Loads {
		rows := append([]result.Row{runner.LowerRow(runner.MetricCPU, "s")}, runner.LoadMemory(s.Processes == "tree")...)
		rows = append(rows, runner.ShareRow())
		for _, m := range load.Metrics {
			rows = append(rows, result.Row{Metric: m.Name, Unit: m.Unit, Better: m.Better})
		}
		list = append(list, runner.Phase{Name: load.Name, Rows: rows, Do: func(ctx context.Context, v *runner.Visit) error { return visit.load(ctx, v, load) }})
	}
	if s.Processes == "tree" {
		return append(list, runner.IdlePhase(), runner.WholeTreePhase())
	}
	return append(list, runner.IdlePhase(), runner.WholePhase())
}

func (s Service) programRows() []result.Row {
	if s.Processes == "tree" {
		return runner.TreeRows()
	}
	return runner.ProgramRows()
}

// enter chooses the port, and runs the program that prepares the folder.
func (s *serviceVisit) enter(ctx context.Context, v *runner.Visit) (err error) {
	if s.port, err = v.FreePort(); err != nil {
		return err
	}
	s.dir = v.Dir
	if err := s.unanswered(ctx); err != nil {
		return err
	}
	for _, command := range s.Before {
		words := s.expand(command)
		if _, err := v.Tool(ctx, words[0], words[1:]...); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// unanswered returns an error if another program already answers the probe of the service: it would be
// mistaken for the service.
func (s *serviceVisit) unanswered(ctx context.Context) (err error) {
	address := s.text(s.Ready.TCP)
	switch {
	case s.Ready.TCP != "":
		err = connects(ctx, address)
	case s.Ready.HTTP != "":
		address = s.text(s.Ready.HTTP)
		err = fetch(ctx, address)
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return fmt.Errorf("something answers at %s before the service is started; stop it, or let the plan use $PORT, which is free", address)
}

// text fills in what a text of the plan leaves open.
func (s *serviceVisit) text(word string) string {
	return strings.NewReplacer("$PORT", strconv.Itoa(s.port), "$DIR", s.dir).Replace(word)
}

func (s *serviceVisit) expand(words []string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = s.text(word)
	}
	return out
}

func (s *serviceVisit) spec(v *runner.Visit) runner.ServerSpec {
	words := s.expand(s.Command)
	spec := runner.ServerSpec{
		Name: filepath.Base(words[0]), Path: v.Paths[s.Command[0]], Args: words[1:], Tree: s.Processes == "tree", Alone: s.Processes == "",
		ReadyLimit: s.Ready.Within, Grace: s.Stop.Within, Signal: unix.SignalNum(s.Stop.Signal),
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		spec.Env = append(spec.Env, name+"="+s.text(s.Environment[name]))
	}
	switch {
	case s.Ready.TCP != "":
		spec.Ready = func(ctx context.Context) error { return connects(ctx, s.text(s.Ready.TCP)) }
	case s.Ready.HTTP != "":
		spec.Ready = func(ctx context.Context) error { return fetch(ctx, s.text(s.Ready.HTTP)) }
	case len(s.Ready.Command) > 0:
		spec.Ready = func(ctx context.Context) error {
			words := s.expand(s.Ready.Command)
			_, err := v.Tool(ctx, words[0], words[1:]...)
			return err
		}
	}
	return spec
}

// connects reports whether the address accepts TCP connections.
func connects(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (s *serviceVisit) load(ctx context.Context, v *runner.Visit, l loadPlan) error {
	var printed string
	seen, err := v.WatchShare(ctx, func(ctx context.Context, _ *runner.Load) error {
		if l.For > 0 {
			return runner.Sleep(ctx, l.For)
		}
		words := s.expand(l.Command)
		return measure.Lines(ctx, words[0], words[1:], measure.Clean(v.Environ), func(line string) { printed += line + "\n" })
	})
	if err != nil {
		return err
	}
	if err := v.Server.Alive(); err != nil {
		return err
	}
	v.Set(runner.MetricCPU, seen.CPUSeconds)
	v.SetLoadMemory(seen)
	for _, m := range l.Metrics {
		match := m.expression.FindStringSubmatch(printed)
		if match == nil {
			return fmt.Errorf("the load printed nothing that matches %q of metric %s; it printed: %.300q", m.Pattern, m.Name, printed)
		}
		value, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return fmt.Errorf("metric %s: %q is no number", m.Name, match[1])
		}
		v.Set(m.Name, value*m.Scale)
	}
	return nil
}
