package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
)

func TestMainFindsRowsAndMapsErrors(t *testing.T) {
	answer := func(err error) func(*pflag.FlagSet) Action {
		return func(*pflag.FlagSet) Action {
			return func(_ context.Context, env Env, args []string) error {
				_, _ = env.Stdout.Write([]byte(strings.Join(args, ",")))
				return err
			}
		}
	}
	commands := []Command{
		{Name: "ok", Setup: answer(nil)},
		{Name: "two words", Setup: answer(nil)},
		{Name: "bad", Setup: answer(errors.New("it broke"))},
		{Name: "coded", Setup: answer(&ExitError{Code: 126, Err: errors.New("no")})},
		{Name: "quiet", Setup: answer(&ExitError{Code: 3})},
	}
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"ok a b", "a,b", "", 0},
		{"two words x", "x", "", 0},
		{"two", "", "granary: say which: `granary two` takes words\n", CodeUsage},
		{"nonsense", "", "granary: there is no command \"nonsense\"; `granary help -a` lists them\n", CodeUsage},
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
	nothing := func(*pflag.FlagSet) Action { return nil }
	commands := []Command{{Name: "run", Usage: "CMD", Summary: "runs", Setup: nothing}, {Name: "bench redis", Summary: "compares", Setup: nothing}}
	if code := Main(context.Background(), Env{Stdout: &out}, commands, nil); code != 0 {
		t.Errorf("code = %d", code)
	}
	if code := Main(context.Background(), Env{Stdout: &out}, commands, []string{"help", "-a"}); code != 0 {
		t.Errorf("code = %d", code)
	}
	for _, want := range []string{"run bench", "granary run          runs", "granary bench redis  compares"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestWhatIsNoCommandHasNoHelp(t *testing.T) {
	commands := []Command{
		{Name: "run", Summary: "runs", Setup: func(*pflag.FlagSet) Action { return nil }},
		{Name: "bench", Summary: "compares", Setup: func(*pflag.FlagSet) Action { return nil }},
		{Name: "bench redis", Summary: "compares", Setup: func(*pflag.FlagSet) Action { return nil }},
		{Name: "version", Summary: "prints", Setup: func(*pflag.FlagSet) Action {
			return func(_ context.Context, env Env, _ []string) error {
				_, err := env.Stdout.Write([]byte("1"))
				return err
			}
		}},
	}
	for line, want := range map[string]string{
		"help nosuch":     "granary: there is no command \"nosuch\"; `granary help -a` lists them\n",
		"nosuch --help":   "granary: there is no command \"nosuch\"; `granary help -a` lists them\n",
		"bench nosuch":    "granary: there is no command \"bench nosuch\"; `granary help -a` lists them\n",
		"bench redi":      "granary: there is no command \"bench redi\"; did you mean \"redis\"?\n",
		"help bench redi": "granary: there is no command \"bench redi\"; did you mean \"redis\"?\n",
		"--nosuch":        "granary: there is no option --nosuch; `granary --help` lists the options\n",
		"run --nosuch":    "granary: run: there is no option --nosuch; `granary run --help` lists the options\n",
		"help run":        "",
		"help bench":      "",
		"--version":       "",
	} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), Env{Stdout: &out, Stderr: &errs}, commands, strings.Fields(line))
		if (code == CodeUsage) != (want != "") || errs.String() != want || (want == "") != (out.Len() > 0) {
			t.Errorf("%s: code %d, %q, %q", line, code, out.String(), errs.String())
		}
	}
}

func TestAWrongValueIsExplainedWithoutTheParsersWords(t *testing.T) {
	commands := []Command{{Name: "a", Setup: func(fs *pflag.FlagSet) Action {
		fs.Duration("for", 0, "")
		fs.Int("limit", 0, "")
		return func(context.Context, Env, []string) error { return nil }
	}}}
	for line, want := range map[string]string{
		"a --for 5":   "granary: a: --for \"5\" is no duration: write a number with its unit, such as 5s, 2m or 1h; `granary a --help` lists the options\n",
		"a --limit x": "granary: a: --limit \"x\" is no whole number: write digits, such as 10; `granary a --help` lists the options\n",
	} {
		var errs bytes.Buffer
		if code := Main(context.Background(), Env{Stderr: &errs}, commands, strings.Fields(line)); code != CodeUsage || errs.String() != want {
			t.Errorf("%s: code %d, said %q", line, code, errs.String())
		}
	}
}

func TestMistakesInOptionsHaveTheCodeOfTheRow(t *testing.T) {
	setup := func(fs *pflag.FlagSet) Action {
		fs.Bool("json", false, "print JSON")
		return func(context.Context, Env, []string) error { return nil }
	}
	commands := []Command{{Name: "a", Setup: setup}, {Name: "b", Setup: setup, WrongCode: 125}}
	for line, want := range map[string]int{"a --json": 0, "a x --json": 0, "a --jsn": CodeUsage, "b --jsn": 125, "a --help": 0, "help a": 0} {
		var out, errs bytes.Buffer
		code := Main(context.Background(), Env{Stdout: &out, Stderr: &errs}, commands, strings.Fields(line))
		if code != want || code != 0 && strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: code %d, said %q", line, code, errs.String())
		}
	}
}

// The words are of env(1)'s manner: which file, and what to do.
func TestErrorsOfFilesAreSentences(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "profile.pb.gz")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "profil.pb.gz"): "there is no file " + dir + "/profil.pb.gz; did you mean " + there + "?",
		filepath.Join(dir, "results"):      "there is no file " + dir + "/results: check the path",
		filepath.Join(dir, "a", "b"):       "there is no folder " + dir + "/a, so no file " + dir + "/a/b: check the path",
		dir:                                dir + " is a folder: name a file",
	} {
		_, err := os.ReadFile(path)
		if got := MessageOf(fmt.Errorf("read it: %w", err)); got != "read it: "+want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if _, err := os.OpenFile(there, os.O_CREATE|os.O_EXCL, 0o600); MessageOf(err) != there+" already exists: name another file, or remove it" {
		t.Error(MessageOf(err))
	}
	denied := &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}
	if got := MessageOf(denied); got != "you may not open /x: run the command as its owner, or as root" {
		t.Error(got)
	}
	if got := MessageOf(errors.New("it broke")); got != "it broke" {
		t.Error(got)
	}
}

func TestAWrongOptionNamesItsNeighbour(t *testing.T) {
	commands := []Command{{Name: "a", Setup: func(fs *pflag.FlagSet) Action {
		fs.BoolP("all", "a", false, "")
		fs.Duration("seconds", 0, "")
		return func(context.Context, Env, []string) error { return nil }
	}}}
	for line, want := range map[string]string{
		"a --second 5": "granary: a: there is no option --second (did you mean --seconds?); `granary a --help` lists the options\n",
		"a --colour":   "granary: a: there is no option --colour; `granary a --help` lists the options\n",
		"a -ax":        "granary: a: there is no option -x; `granary a --help` lists the options\n",
		"a --seconds":  "granary: a: --seconds needs a value; `granary a --help` lists the options\n",
	} {
		var errs bytes.Buffer
		if code := Main(context.Background(), Env{Stderr: &errs}, commands, strings.Fields(line)); code != CodeUsage || errs.String() != want {
			t.Errorf("%s: code %d, said %q", line, code, errs.String())
		}
	}
}

func TestGetenvTakesTheLastAssignment(t *testing.T) {
	env := Env{Environ: []string{"A=1", "B=2", "A=3"}}
	if env.Getenv("A") != "3" || env.Getenv("B") != "2" || env.Getenv("C") != "" {
		t.Error("wrong values")
	}
}
