// Package runner turns the description of a service under load into a command. A Scenario holds the data
// and the functions of its phases; this package starts, probes, verifies, samples and stops the server,
// and reports the results.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
)

// A Scenario is a server or program with its load, under which allocators are compared.
type Scenario struct {
	Name    string
	Summary string
	About   string // paragraphs for --help
	// Examples are command lines without `granary`.
	Examples []cli.Example
	Rounds   measure.Rounds
	Needs    []Need
	Params   []Param
	// Privileged scenarios need rights or devices that most machines do not give; a suite need not have them.
	Privileged bool
	// Prepare makes data that every visit needs, such as a filled data folder, once; nil for none.
	Prepare func(ctx context.Context, shared *Shared) error
	// Phases lists a visit in order. It is called anew for each visit, so that phases may share state.
	Phases func(v Values) []Phase
}

// A Phase is one part of a visit: what it does, and the rows that it fills.
type Phase struct {
	Name string
	Rows []result.Row // their Phase is filled in
	Do   func(ctx context.Context, visit *Visit) error
}

// Rows are all rows of the scenario.
func (s Scenario) Rows(v Values) []result.Row {
	var out []result.Row
	for _, p := range s.Phases(v) {
		for _, row := range p.Rows {
			row.Phase = p.Name
			out = append(out, row)
		}
	}
	return out
}

// A Need is a program that a scenario starts, and the Debian package that contains it. A program without a
// package is one of Granary's own.
type Need struct{ Program, Package string }

// extraDirs are patterns of the folders where packages install programs outside the usual PATH; the first
// match of each pattern is used.
var extraDirs = []string{"/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin"}

// Find is the path of an installed program.
func (n Need) Find() (string, error) {
	if n.Package == "" {
		exe, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the command's own folder: %w", err)
		}
		return preload.BenchProgram(exe, n.Program)
	}
	// Not resolved further: some programs are links that go by the name they are called.
	if path, err := exec.LookPath(n.Program); err == nil {
		return filepath.Abs(path)
	}
	for _, pattern := range extraDirs {
		matches, _ := filepath.Glob(filepath.Join(pattern, filepath.Base(n.Program))) // well formed
		for _, path := range matches {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", errors.New(toInstall([]Need{n}))
}

// find searches for every need; the error names all that are missing.
func find(needs []Need) (map[string]string, error) {
	paths := map[string]string{}
	var missing []Need
	var causes []string
	for _, n := range needs {
		path, err := n.Find()
		switch {
		case err == nil:
			paths[n.Program] = path
		case n.Package == "":
			causes = append(causes, err.Error())
		default:
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		causes = append(causes, toInstall(missing))
	}
	if len(causes) > 0 {
		return nil, errors.New(strings.Join(causes, "; "))
	}
	return paths, nil
}

// toInstall is one message about programs that are missing, with the command that installs them.
func toInstall(missing []Need) string {
	var programs, packages []string
	for _, n := range missing {
		programs = append(programs, n.Program)
		if !slices.Contains(packages, n.Package) {
			packages = append(packages, n.Package)
		}
	}
	verb := "is"
	if len(programs) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s %s not installed: apt-get install %s", strings.Join(programs, ", "), verb, strings.Join(packages, " "))
}
