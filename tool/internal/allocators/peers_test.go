package allocators

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/bench/peers"
	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func TestEveryRowSaysWhereItComesFrom(t *testing.T) {
	rows, err := Peers()
	if err != nil || len(rows) < 9 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	script, err := peers.Files.ReadFile("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rows {
		if p.Name == "" || p.Title == "" || (p.Crate == "") == (p.Package == "") || (p.Crate == "") != (p.Version == "") || (p.Package == "") != (p.Library == "") {
			t.Errorf("row %+v", p)
		}
		if p.Crate != "" && !strings.Contains(string(script), "build_"+p.Name+"()") {
			t.Errorf("build.sh has no recipe for %s", p.Name)
		}
	}
}

func command(t *testing.T, i int, environ []string, args ...string) (string, error) {
	t.Helper()
	fs := pflag.NewFlagSet("peers", pflag.ContinueOnError)
	act := Commands[i].Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out, Environ: environ}, fs.Args())
	return out.String(), err
}

func TestListNamesWhatIsThereAndWhatCouldBe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"snmalloc.so": "a library", "snmalloc.version": "snmalloc 0.0.1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := command(t, 0, []string{"GRANARY_PEERS=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"glibc", "snmalloc 0.0.1", "granary peers install rpmalloc"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "granary peers install snmalloc") {
		t.Errorf("what is there is offered:\n%s", out)
	}
}

func TestInstallRefusesUnknownNames(t *testing.T) {
	if _, err := command(t, 1, nil, "nobody"); err == nil || !strings.Contains(err.Error(), `there is no peer "nobody"`) {
		t.Errorf("err = %v", err)
	}
}

// Without a name nothing runs: a script that replaces apt-get would leave a mark.
func TestInstallWithoutNamesListsAndInstallsNothing(t *testing.T) {
	bin, mark := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for _, tool := range []string{"apt-get", "bash", "cargo", "g++", "make", "cmake"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\necho \"$0 $*\" >>"+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	out, err := command(t, 1, []string{"PATH=" + os.Getenv("PATH")})
	if err == nil || !strings.Contains(err.Error(), "--all") || !strings.Contains(out, "package libjemalloc2") || !strings.Contains(out, "crate snmalloc-sys") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program was started")
	}
	if _, err := command(t, 1, nil, "--all", "snmalloc"); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("--all with a name: %v", err)
	}
	if _, err := command(t, 1, []string{"PATH=" + os.Getenv("PATH")}, "--all", "--dir", t.TempDir()); err != nil {
		t.Errorf("--all: %v", err)
	}
	ran, err := os.ReadFile(mark)
	if err != nil || !strings.Contains(string(ran), "install -y --no-install-recommends libtcmalloc-minimal4 libjemalloc2") || !strings.Contains(string(ran), " tcmalloc") {
		t.Errorf("--all ran %s", ran)
	}
}

// A script that replaces bash prints the commands.
func TestInstallRunsTheBuildScriptThatItCarries(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, tool := range []string{"cargo", "g++", "make", "cmake"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "bash"), []byte("#!/bin/sh\n[ -s \"$1\" ] && echo \"$(basename \"$1\") $2 $3\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	out, err := command(t, 1, []string{"PATH=" + os.Getenv("PATH")}, "snmalloc", "--dir", dir)
	if err != nil || !strings.Contains(out, "build.sh "+dir+" snmalloc\n") || !strings.Contains(out, "GRANARY_PEERS="+dir+"/lib") {
		t.Errorf("%v\n%s", err, out)
	}
}
