package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"

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
	Name    string        `yaml:"name"`
	Pattern string        `yaml:"pattern"` // its first group is the value
	Unit    string        `yaml:"unit"`
	Better  result.Better `yaml:"better"`
	Scale   float64       `yaml:"scale"` // the factor of the value; 1 when left out

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
		return s, err
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", path, explain(err))
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// unknownField matches the YAML reader's message about an unknown setting.
var unknownField = regexp.MustCompile(`line (\d+): field (\S+) not found in type \S+`)

// explain rewrites the first error of the YAML reader as one message.
func explain(err error) error {
	var many *yaml.TypeError
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return err
	case errors.Is(err, io.EOF):
		return errors.New("it is empty; write at least `name` and `command`")
	case !errors.As(err, &many) || len(many.Errors) == 0:
		return fmt.Errorf("it is no YAML: %s; docs/guides/bench-your-service.md shows a plan", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if found := unknownField.FindStringSubmatch(many.Errors[0]); found != nil {
		return fmt.Errorf("line %s: there is no setting %q here; correct its name", found[1], found[2])
	}
	if found := wrongType.FindStringSubmatch(many.Errors[0]); found != nil {
		return fmt.Errorf("line %s: %s stands where the plan needs %s; docs/guides/bench-your-service.md shows one", found[1], written(found[2], found[3]), needed(found[4]))
	}
	return errors.New(many.Errors[0])
}

// wrongType matches the YAML reader's message about a value of another kind.
var wrongType = regexp.MustCompile(`line (\d+): cannot unmarshal !!(\w+) ?(.*?) into (.+)`)

// needed says in words what a setting of that Go type is written as.
func needed(want string) string {
	switch {
	case strings.HasPrefix(want, "[]"):
		return "a list"
	case strings.HasPrefix(want, "map[") || strings.HasPrefix(want, "scenarios."):
		return "names with their values, such as `name: x`"
	case want == "time.Duration":
		return "a duration such as 5s"
	case want == "int":
		return "a whole number"
	case want == "string":
		return "one text"
	}
	return "another kind of value"
}

// written says what stands in the file: its text, or its kind.
func written(kind, text string) string {
	switch kind {
	case "seq":
		return "a list"
	case "map":
		return "names with their values"
	}
	return cmp.Or(text, "nothing")
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
		return errors.New("it has a `load` but no `ready`; name a check that the service is ready: tcp, http or command")
	}
	if strings.Contains(s.Name, "/") {
		return fmt.Errorf("`name` is %q; it becomes a part of file names, so write it without /", s.Name)
	}
	if s.Rounds < 0 || min(s.Settle, s.Ready.Within, s.Stop.Within) < 0 {
		return errors.New("a negative number of `rounds`, or a negative duration, has no meaning; correct it")
	}
	if err := programs("command", s.Command); err != nil {
		return err
	}
	if err := programs("before", s.Before...); err != nil {
		return err
	}
	if s.Ready.Command != nil {
		if err := programs("ready: command", s.Ready.Command); err != nil {
			return err
		}
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

// programs refuses commands that cannot start, before anything is measured. A path that an earlier command makes, in $DIR
// or relative, may come later.
func programs(setting string, commands ...[]string) error {
	for _, words := range commands {
		if len(words) == 0 || words[0] == "" {
			return fmt.Errorf("a command of `%s` names no program; write the program and its arguments as a list", setting)
		}
		if strings.Contains(words[0], "$") || strings.Contains(words[0], "/") && !strings.HasPrefix(words[0], "/") {
			continue
		}
		if err := executable(words[0]); err != nil {
			return fmt.Errorf("`%s`: %w", setting, err)
		}
	}
	return nil
}

func executable(program string) error {
	if !strings.Contains(program, "/") {
		if _, err := (runner.Need{Program: program, Package: program}).Find(); err != nil {
			return fmt.Errorf("there is no program %s on the PATH; install it, or correct its name", program)
		}
		return nil
	}
	info, err := os.Stat(program)
	switch {
	case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
		return nil
	case err != nil:
		return fmt.Errorf("there is no file %s; install the program, or correct its path", program)
	case info.IsDir():
		return fmt.Errorf("%s is a folder; write the path of the program", program)
	}
	return fmt.Errorf("%s is no program: it may not be executed", program)
}

func (l *loadPlan) check() error {
	if l.Name == "" {
		return errors.New("a `load` has no `name`")
	}
	if l.For < 0 {
		return fmt.Errorf("load %s: a negative `for` has no meaning; correct it", l.Name)
	}
	if len(l.Command) > 0 {
		if err := programs("command", l.Command); err != nil {
			return fmt.Errorf("load %s: %w", l.Name, err)
		}
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
		if m.Better != result.Lower && m.Better != result.Higher && m.Better != result.Neutral {
			return fmt.Errorf("metric %s of load %s: `better` is lower or higher, not %q", m.Name, l.Name, m.Better)
		}
		if m.Scale == 0 {
			m.Scale = 1
		}
	}
	return nil
}
