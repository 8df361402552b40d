package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestMainFindsRowsAndMapsErrors(t *testing.T) {
	answer := func(err error) func(context.Context, Env, []string) error {
		return func(_ context.Context, env Env, args []string) error {
			_, _ = env.Stdout.Write([]byte(strings.Join(args, ",")))
			return err
		}
	}
	commands := []Command{
		{Name: "ok", Run: answer(nil)},
		{Name: "two words", Run: answer(nil)},
		{Name: "bad", Run: answer(errors.New("it broke"))},
		{Name: "coded", Run: answer(&ExitError{Code: 126, Err: errors.New("no")})},
		{Name: "quiet", Run: answer(&ExitError{Code: 3})},
	}
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"ok a b", "a,b", "", 0},
		{"two words x", "x", "", 0},
		{"two", "", "granary: say which: `granary help` lists the commands that begin with \"two\"\n", CodeUsage},
		{"nonsense", "", "granary: there is no command \"nonsense\"; `granary help` lists them\n", CodeUsage},
		{"quite", "", "granary: there is no command \"quite\"; did you mean \"quiet\"?\n", CodeUsage},
		{"two worms", "", "granary: there is no command \"two worms\"; did you mean \"words\"?\n", CodeUsage},
		{"bad", "", "granary: it broke\n", CodeFailed},
		{"coded", "", "granary: no\n", 126},
		{"quiet", "", "", 3},
	} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), Env{Stdout: &out, Stderr: &errs}, commands, strings.Fields(c.args))
		if code != c.code || out.String() != c.stdout || errs.String() != c.stderr {
			t.Errorf("%s: code %d, stdout %q, stderr %q", c.args, code, out.String(), errs.String())
		}
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	var out bytes.Buffer
	commands := []Command{{Name: "run", Usage: "CMD", Summary: "runs"}, {Name: "bench redis", Summary: "compares"}}
	if code := Main(context.Background(), Env{Stdout: &out}, commands, nil); code != 0 {
		t.Errorf("code = %d", code)
	}
	for _, want := range []string{"granary run CMD  ", "granary bench redis"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestParseTellsHelpFromMistakes(t *testing.T) {
	var errs bytes.Buffer
	fs := Flags(Env{Stderr: &errs}, "x", "[options]")
	if code := finish(Env{Stderr: &errs}, Parse(fs, []string{"-h"}, 125)); code != 0 {
		t.Errorf("-h ends with %d", code)
	}
	if code := finish(Env{Stderr: &errs}, Parse(fs, []string{"-nonsense"}, 125)); code != 125 {
		t.Errorf("a mistake ends with %d", code)
	}
}

func TestGetenvTakesTheLastAssignment(t *testing.T) {
	env := Env{Environ: []string{"A=1", "B=2", "A=3"}}
	if env.Getenv("A") != "3" || env.Getenv("B") != "2" || env.Getenv("C") != "" {
		t.Error("wrong values")
	}
}
