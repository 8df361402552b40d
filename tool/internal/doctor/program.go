package doctor

import (
	"fmt"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"
)

// program is a program before it is started.
type program struct {
	path string
	file inspect.ProgramFile
}

var programChecks = []check[program]{
	{"preload", preloadable},
	{"own malloc", ownMalloc},
	{"options", func(w World, _ program) []Finding { return ofOthers(w, inspect.Granary, w.Environ) }},
	{"restartable sequences", func(w World, _ program) []Finding {
		return rseqOff(w, process{running: inspect.Running{Name: inspect.Granary}, environ: w.Environ})
	}},
}

// Program checks whether the program at path would run under Granary, and the system's settings.
func Program(w World, path string) (Report, error) {
	p := program{path: path}
	file, err := inspect.AllocatorInFile(path)
	if err == nil {
		p.file = file // a script has none; the first check follows it to its interpreter
	}
	r := Report{Subject: "the program " + path, Findings: []Finding{}}
	run(w, &r, programChecks, p)
	run(w, &r, systemChecks, struct{}{})
	r.sort()
	return r, nil
}

func preloadable(w World, p program) []Finding {
	if w.Library == "" {
		return one(Problem, "libgranary.so was not found, so nothing can be preloaded", "build it with `make`, or name it with --lib PATH or GRANARY_LIB")
	}
	if p.file.Kind == inspect.Granary {
		return nil // it is linked already
	}
	caller := preload.CurrentCredentials()
	if err := preload.Check(p.path, w.Library, caller, variable(w.Environ, "PATH")); err != nil {
		what, remedy, ok := strings.Cut(err.Error(), "; ")
		if !ok {
			remedy = "correct that first"
		}
		return one(Problem, "Granary cannot be preloaded: "+what, remedy)
	}
	return nil
}

func ownMalloc(_ World, p program) []Finding {
	switch {
	case p.file.Kind == inspect.Granary:
		return nil
	case p.file.Kind != "" && !p.file.Static:
		return one(Problem, fmt.Sprintf("the program contains %s and calls it directly, so a preloaded malloc serves only its other code", p.file.Kind),
			"build it with the C library's malloc (Redis: make MALLOC=libc; Rust: no #[global_allocator])")
	case p.file.DefinesMalloc && !p.file.Static:
		return one(Problem, "the program defines malloc itself, and its own malloc precedes every preloaded library",
			"build it without its own malloc, or link it with granary.o")
	case len(p.file.Needs) > 0 && p.file.Needs[0] != inspect.Granary:
		return one(Note, fmt.Sprintf("it is linked to %s, which is loaded as well; a preloaded Granary precedes it", strings.Join(p.file.Needs, ", ")),
			"nothing; build it with the C library's malloc to save that memory (Redis: make MALLOC=libc)")
	case p.file.Go:
		return one(Note, "it is a Go program: the Go heap does not use malloc, only its C code does", "GOMEMLIMIT and GOGC control the Go heap")
	}
	return nil
}
