package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"granary/tool/internal/bench"
	"granary/tool/internal/bench/run"
	"granary/tool/internal/bench/scenario"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// A Service is a user's own program as a plan file describes it. In every text, $PORT is a free
// loopback port, $DIR a temporary folder, both new for each start.
type Service struct {
	Name        string            `yaml:"name"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Processes   string            `yaml:"processes"` // "one", or "tree": all its children count
	Before      [][]string        `yaml:"before"`    // commands that prepare $DIR
	Ready       ready             `yaml:"ready"`
	Loads       []loadPlan        `yaml:"load"`
	Stop        stopRule          `yaml:"stop"`
	Settle      time.Duration     `yaml:"settle"`
	Rounds      int               `yaml:"rounds"`
}

type ready struct {
	TCP     string        `yaml:"tcp"`
	HTTP    string        `yaml:"http"`
	Command []string      `yaml:"command"`
	Within  time.Duration `yaml:"within"`
}

type loadPlan struct {
	Name    string        `yaml:"name"`
	Command []string      `yaml:"command"`
	For     time.Duration `yaml:"for"` // without a command: how long the server is watched
	Metrics []loadMetric  `yaml:"metrics"`
}

type loadMetric struct {
	Name    string       `yaml:"name"`
	Pattern string       `yaml:"pattern"` // its first group is the value
	Unit    string       `yaml:"unit"`
	Better  bench.Better `yaml:"better"`
	Scale   float64      `yaml:"scale"` // what the value is multiplied by; 1 when left out

	expression *regexp.Regexp
}

type stopRule struct {
	Signal string        `yaml:"signal"`
	Within time.Duration `yaml:"within"`
}

// ReadService reads and checks a plan file.
func ReadService(path string) (Service, error) {
	var s Service
	file, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("read the plan: %w", err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *Service) check() error {
	switch {
	case s.Name == "":
		return errors.New("it has no `name`")
	case len(s.Command) == 0:
		return errors.New("it has no `command`; write the program and its arguments as a list")
	case s.Processes != "" && s.Processes != "one" && s.Processes != "tree":
		return fmt.Errorf("`processes` is one or tree, not %q", s.Processes)
	case len(s.Loads) > 0 && s.Ready.TCP == "" && s.Ready.HTTP == "" && s.Ready.Command == nil:
		return errors.New("it has a `load` but no `ready`; say how to see that the service answers: tcp, http or command")
	}
	if s.Stop.Signal != "" && unix.SignalNum(s.Stop.Signal) == 0 {
		return fmt.Errorf("`stop: signal` %q is no signal; write one such as SIGINT", s.Stop.Signal)
	}
	for i := range s.Loads {
		if err := s.Loads[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loadPlan) check() error {
	if l.Name == "" {
		return errors.New("a `load` has no `name`")
	}
	if (len(l.Command) == 0) == (l.For == 0) {
		return fmt.Errorf("load %s needs `command`, or `for` (how long to watch), and not both", l.Name)
	}
	for i := range l.Metrics {
		m := &l.Metrics[i]
		var err error
		if m.expression, err = regexp.Compile("(?m)" + m.Pattern); err != nil {
			return fmt.Errorf("metric %s of load %s: %w", m.Name, l.Name, err)
		}
		if m.Name == "" || m.expression.NumSubexp() < 1 {
			return fmt.Errorf("metric %q of load %s needs a `name`, and a `pattern` with a group (...) around the value", m.Name, l.Name)
		}
		if m.Better != bench.Lower && m.Better != bench.Higher && m.Better != bench.Neutral {
			return fmt.Errorf("metric %s of load %s: `better` is lower or higher, not %q", m.Name, l.Name, m.Better)
		}
		if m.Scale == 0 {
			m.Scale = 1
		}
	}
	return nil
}

// Scenario is the service as a scenario, run like the built-in ones.
func (s Service) Scenario() scenario.Scenario {
	rounds := bench.Rounds{Full: 5, Quick: 3}
	if s.Rounds > 0 {
		rounds = bench.Rounds{Full: s.Rounds, Quick: s.Rounds}
	}
	return scenario.Scenario{
		Name: s.Name, Rounds: rounds, Needs: []scenario.Need{{Program: s.Command[0], Package: "that has it, or correct the plan's `command`"}},
		Params: []scenario.Param{{Name: "settle", Kind: scenario.Duration, Full: s.settle(), Help: "how long the service is left alone before its memory is read"}},
		Phases: func(scenario.Values) []scenario.Phase { return s.phases() },
	}
}

func (s Service) settle() string {
	if s.Settle == 0 {
		return "5s"
	}
	return s.Settle.String()
}

// A serviceVisit is the service in one visit: what its words stand for.
type serviceVisit struct {
	Service
	port int
	dir  string
}

func (s Service) phases() []scenario.Phase {
	visit := &serviceVisit{Service: s}
	if len(s.Loads) == 0 { // a program that ends by itself
		return []scenario.Phase{{Name: "the program", Rows: scenario.ProgramRows(), Do: func(ctx context.Context, v *scenario.Visit) error {
			if err := visit.enter(ctx, v); err != nil {
				return err
			}
			_, err := v.Program(ctx, visit.spec(v))
			return err
		}}}
	}
	list := []scenario.Phase{scenario.StartPhase(func(ctx context.Context, v *scenario.Visit) error {
		if err := visit.enter(ctx, v); err != nil {
			return err
		}
		return v.Start(ctx, visit.spec(v))
	})}
	for _, load := range s.Loads {
		rows := []bench.Row{scenario.LowerRow(scenario.MetricCPU, "s"), scenario.LowerRow(scenario.MetricRSS, "bytes"), scenario.ShareRow()}
		for _, m := range load.Metrics {
			rows = append(rows, bench.Row{Metric: m.Name, Unit: m.Unit, Better: m.Better})
		}
		list = append(list, scenario.Phase{Name: load.Name, Rows: rows, Do: func(ctx context.Context, v *scenario.Visit) error { return visit.load(ctx, v, load) }})
	}
	return append(list, scenario.IdlePhase(), scenario.WholePhase())
}

// enter chooses the port, and runs what prepares the folder.
func (s *serviceVisit) enter(ctx context.Context, v *scenario.Visit) (err error) {
	if s.port, err = v.FreePort(); err != nil {
		return err
	}
	s.dir = v.Dir
	for _, command := range s.Before {
		words := s.expand(command)
		if _, err := v.Tool(ctx, words[0], words[1:]...); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
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

func (s *serviceVisit) spec(v *scenario.Visit) scenario.ServerSpec {
	words := s.expand(s.Command)
	spec := scenario.ServerSpec{
		Name: filepath.Base(words[0]), Path: v.Paths[s.Command[0]], Args: words[1:], Tree: s.Processes == "tree",
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

// connects is true of an address that takes connections.
func connects(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (s *serviceVisit) load(ctx context.Context, v *scenario.Visit, l loadPlan) error {
	var printed string
	seen, err := v.WatchShare(ctx, func(ctx context.Context, _ *scenario.Load) error {
		if l.For > 0 {
			return scenario.Sleep(ctx, l.For)
		}
		words := s.expand(l.Command)
		return run.Lines(ctx, words[0], words[1:], run.Clean(v.Environ), func(line string) { printed += line + "\n" })
	})
	if err != nil {
		return err
	}
	v.Set(scenario.MetricCPU, seen.CPUSeconds)
	v.Set(scenario.MetricRSS, seen.PeakRSS)
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
