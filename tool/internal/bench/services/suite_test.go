package services

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func TestTheProjectsOwnSuiteIsReadAndItsOptionsHold(t *testing.T) {
	suite, err := ReadSuite("../../../../bench/suites/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(suite.Scenarios) != len(All) {
		t.Errorf("the suite has %d scenarios of %d", len(suite.Scenarios), len(All))
	}
	for _, entry := range suite.Scenarios {
		for _, args := range [][]string{entry.Args, entry.Quick} {
			fs := pflag.NewFlagSet(entry.Name, pflag.ContinueOnError)
			find(entry.Name).Declare(fs)
			if err := fs.Parse(args); err != nil {
				t.Errorf("%s %q: %v", entry.Name, args, err)
			}
		}
	}
}

// suite runs `granary bench all` on a suite of the given text.
func suite(t *testing.T, dir, text string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "suite.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("bench all", pflag.ContinueOnError)
	act := AllCommand.Setup(fs)
	if err := fs.Parse(append([]string{"--suite", path, "--out", dir, "--allocators", "glibc", "--rounds", "1"}, args...)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out, Environ: os.Environ()}, nil)
	return out.String(), err
}

const twoScenarios = `
[[scenario]]
name = "rax"
args = ["--source", "/no/such/folder"]
[[scenario]]
name = "redis"
args = ["--requests", "1000", "--values", "3", "--parts", "fall", "--settle", "50ms"]
`

func TestASuiteGoesOnAfterAFailureAndIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	out, err := suite(t, dir, twoScenarios)
	if err == nil || !strings.Contains(err.Error(), "not measured: rax") || !strings.Contains(out, "there is no rax.c in /no/such/folder") {
		t.Fatalf("%v\n%s", err, out)
	}
	summary, readErr := os.ReadFile(filepath.Join(dir, "README.md"))
	if readErr != nil || !strings.Contains(string(summary), "[redis](redis/report.md)") {
		t.Errorf("%v\n%s", readErr, summary)
	}
	if out, err := suite(t, dir, twoScenarios, "--resume", "--only", "redis"); err != nil || !strings.Contains(out, "is there already") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWrongSuitesAreRefused(t *testing.T) {
	for text, sentence := range map[string]string{
		"":                                  "it has no [[scenario]]",
		"[[scenario]]\nname='fun'":          `there is no scenario "fun"`,
		"[[scenario]]\nname='redis'\nx = 1": `there is no setting "scenario.x"`,
	} {
		if _, err := suite(t, t.TempDir(), text); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%q: %v", text, err)
		}
	}
	fs := pflag.NewFlagSet("bench all", pflag.ContinueOnError)
	var exit *cli.ExitError
	if err := AllCommand.Setup(fs)(context.Background(), cli.Env{}, nil); !errors.As(err, &exit) || exit.Code != cli.CodeUsage {
		t.Errorf("err = %v", err)
	}
}
