package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func call(t *testing.T, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &errs, Version: "1.2.3", Environ: []string{"SOURCE_DATE_EPOCH=1000000000"}}
	code := cli.Main(context.Background(), env, commands(), args)
	return out.String(), errs.String(), code
}

func TestEveryRowHasANameASummaryAndWork(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if c.Name == "" || c.Summary == "" || c.Group == "" || c.Setup == nil && c.Name != "help" || seen[c.Name] {
			t.Errorf("row %+v", c)
		}
		seen[c.Name] = true
	}
}

func TestEveryRowExplainsItself(t *testing.T) {
	for _, c := range commands() {
		out, errs, code := call(t, append(strings.Fields(c.Name), "--help")...)
		if code != 0 || !strings.Contains(out+errs, c.Name) {
			t.Errorf("%s --help: code %d, printed %q, %q", c.Name, code, out, errs)
		}
	}
}

func TestEveryHelpFits80Columns(t *testing.T) {
	lines := [][]string{{"--help"}, {"help", "-a"}}
	for _, c := range commands() {
		lines = append(lines, append(strings.Fields(c.Name), "--help"))
	}
	for _, args := range lines {
		out, _, _ := call(t, args...)
		if long := testkit.LongerThan(80, out); len(long) > 0 {
			t.Errorf("granary %s:\n%s", strings.Join(args, " "), strings.Join(long, "\n"))
		}
	}
}

func TestVersion(t *testing.T) {
	if out, _, code := call(t, "version"); code != 0 || out != "granary 1.2.3\n" {
		t.Errorf("code %d, printed %q", code, out)
	}
}

func TestReferencePageAndHelpAreThoseOfTheTable(t *testing.T) {
	var page bytes.Buffer
	cli.Reference(&page, commands())
	testkit.Check(t, "../../../docs/reference/commands.md", page.Bytes())
	out, _, _ := call(t)
	testkit.Check(t, "testdata/help.golden", []byte(out))
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range cli.Shells {
		if out, _, code := call(t, "completion", shell); code != 0 || !strings.Contains(out, "granary") {
			t.Errorf("%s: code %d, %d bytes", shell, code, len(out))
		}
	}
	_, errs, code := call(t, "completion", "csh")
	if code != cli.CodeUsage || errs != "granary: there is no completion for \"csh\": choose bash, zsh or fish\n" {
		t.Errorf("csh: code %d, said %q", code, errs)
	}
	if out, _, _ := call(t, "__complete", "completion", ""); !strings.Contains(out, "fish") {
		t.Errorf("offered %q", out)
	}
}

func TestCompletionOffersProcessesAndVerbs(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for args, want := range map[string]string{
		"why": self + "\tgranary.test", "ctl " + self: "purge", "stats --c": "--classes", "bench": "redis\t",
	} {
		words := append([]string{"__complete"}, strings.Fields(args)...)
		if !strings.Contains(args, "--") {
			words = append(words, "")
		}
		if out, _, code := call(t, words...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, offered %q", args, code, out)
		}
	}
	if out, _, _ := call(t, "__complete", "why", ""); strings.Contains(out, "kthreadd") {
		t.Error("threads of the kernel are offered")
	}
}

func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if _, errs, code := call(t, "man", dir); code != 0 {
		t.Fatalf("code %d: %s", code, errs)
	}
	for _, c := range commands() {
		if c.Name == "help" {
			continue
		}
		name := filepath.Join(dir, "granary-"+strings.ReplaceAll(c.Name, " ", "-")+".1")
		page, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(page, []byte("Sep 2001")) || !bytes.Contains(page, []byte("Exit codes: ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
