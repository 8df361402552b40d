// Package doctor finds what prevents an allocator from working or from being inspected: in the system's
// settings, in a running process, or in a program before its start. Every finding has a remedy.
package doctor

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// Severity is how bad a finding is.
type Severity string

// A Problem means that something does not work; a Warning that it works worse than it could, or may
// soon not; a Note is good to know.
const (
	Problem Severity = "problem"
	Warning Severity = "warning"
	Note    Severity = "note"
)

var ranks = map[Severity]int{Problem: 0, Warning: 1, Note: 2}

// A Finding is one thing that is not as it should be.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`   // the finding
	Remedy   string   `json:"remedy"` // the remedy
}

// Report is the result of all checks.
type Report struct {
	Subject  string    `json:"subject"`
	Checks   int       `json:"checks"` // how many were made
	Fine     []string  `json:"fine"`   // those that found nothing
	Findings []Finding `json:"findings"`
}

// Problems is the number of findings of that severity.
func (r Report) Problems() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Problem {
			n++
		}
	}
	return n
}

// World is the input of the checks.
type World struct {
	Proc    procfs.FS
	Sys     string // "/sys"
	Etc     string // "/etc"
	UID     int
	Environ []string
	Library string // the path of libgranary.so, or ""
	// Options finds rows of GRANARY_CONF that the library would refuse; nil if that is unknown.
	Options func(setting string) []string
}

// Live is this machine. library may be empty.
func Live(environ []string, library string) World {
	w := World{Proc: procfs.Live(), Sys: "/sys", Etc: "/etc", UID: os.Geteuid(), Environ: environ, Library: library}
	if library != "" {
		w.Options = OptionsOf(library)
	}
	return w
}

// A check is one row of a table: its subject and the function that returns its findings.
type check[S any] struct {
	name string
	find func(World, S) []Finding
}

// run makes every check of a table.
func run[S any](w World, report *Report, table []check[S], subject S) {
	for _, c := range table {
		report.Checks++
		findings := c.find(w, subject)
		if len(findings) == 0 {
			report.Fine = append(report.Fine, c.name)
		}
		for _, f := range findings {
			f.Check = c.name
			report.Findings = append(report.Findings, f)
		}
	}
}

// System checks the settings of the machine.
func System(w World) Report {
	r := Report{Subject: "this system", Findings: []Finding{}}
	run(w, &r, systemChecks, struct{}{})
	r.sort()
	return r
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(ranks[a.Severity], ranks[b.Severity])
	})
}

func one(s Severity, what, remedy string) []Finding {
	return []Finding{{Severity: s, What: what, Remedy: remedy}}
}

// sysValue is the content of a file below /sys, or "".
func (w World) sysValue(name string) string {
	data, err := os.ReadFile(filepath.Join(w.Sys, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// chosen is the word in brackets of a setting like "always [madvise] never".
func chosen(setting string) string {
	_, rest, ok := strings.Cut(setting, "[")
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(rest, "]")
	return word
}

func variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
