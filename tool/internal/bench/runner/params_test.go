package runner

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

var sizes = []Param{
	{Name: "keys", Kind: Number, Full: "100", Quick: "10", Long: "1000", Least: 5},
	{Name: "threads", Kind: Numbers, Full: "1,2", Least: 1},
	{Name: "time", Kind: Duration, Full: "10s"},
	{Name: "work", Kind: Words, Full: "read,write", OneOf: []string{"read", "write"}},
}

func TestSizesSelectDefaults(t *testing.T) {
	for size, keys := range map[Size]int{Full: 100, Quick: 10, Long: 1000} {
		v, err := resolve(sizes, size, nil)
		if err != nil || v.Number("keys") != keys {
			t.Errorf("%s: %v, %v", size, v, err)
		}
	}
	v, err := resolve(sizes, Full, map[string]*word{"threads": {text: "3,4,5"}})
	if err != nil || !reflect.DeepEqual(v.Numbers("threads"), []int{3, 4, 5}) || v.Duration("time") != 10*time.Second || len(v.Words("work")) != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

func TestWrongParametersAreRefusedClearly(t *testing.T) {
	s := Scenario{Name: "x", Params: sizes, Rounds: measure.Rounds{Full: 5, Quick: 3}, Phases: func(Values) []Phase { return nil }}
	for _, c := range []struct{ args, message string }{
		{"--keys 4", "--keys: 4 is too small; the least is 5"},
		{"--keys many", `--keys: "many" is no whole number`},
		{"--threads 1,0", "--threads: 0 is too small"},
		{"--time 10", `"10" is no duration; write one such as 10s`},
		{"--work read,sleep", `there is no "sleep"; choose from read, write`},
		{"--quick --long", "--quick and --long exclude each other"},
	} {
		err := command(context.Background(), t, s, cli.Env{Stdout: io.Discard, Stderr: io.Discard}, strings.Fields(c.args)...)
		var exit *cli.ExitError
		if !errors.As(err, &exit) || exit.Code != cli.CodeUsage || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

// command runs a scenario's command as the table of commands does.
func command(ctx context.Context, t *testing.T, s Scenario, env cli.Env, args ...string) error {
	t.Helper()
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	act := s.Command().Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return act(ctx, env, fs.Args())
}

func TestMissingProgramsAreNamedWithTheirPackages(t *testing.T) {
	_, err := find([]Need{{"sh", "dash"}, {"no-such-server", "no-such"}, {"no-such-load", "such-tools"}, {"no-such-setup", "no-such"}})
	want := "no-such-server, no-such-load, no-such-setup are not installed: apt-get install no-such such-tools"
	if err == nil || err.Error() != want {
		t.Errorf("err = %v", err)
	}
}
