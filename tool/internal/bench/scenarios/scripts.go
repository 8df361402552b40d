package scenarios

import (
	"context"
	_ "embed"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

//go:embed programs/objects.py
var pythonProgram string

//go:embed programs/objects.js
var nodeProgram string

var python = script("python", "compare allocators under a Python program: objects, text, JSON, threads, compression",
	runner.Need{Program: "/usr/bin/python3", Package: "python3"}, "objects.py", pythonProgram,
	// Without it Python hands small objects out of arenas of its own, and asks malloc for those alone.
	"PYTHONMALLOC=malloc")

var node = script("node", "compare allocators under a Node.js program: objects, buffers, compression, workers",
	runner.Need{Program: "node", Package: "nodejs"}, "objects.js", nodeProgram)

// script is the scenario of a program that an interpreter runs; it prints its own metrics.
func script(name, summary string, interpreter runner.Need, file, text string, env ...string) runner.Scenario {
	return runner.Scenario{
		Name: name, Summary: summary, Rounds: measure.Rounds{Full: 5, Quick: 3}, Needs: []runner.Need{interpreter},
		Params: []runner.Param{{Name: "size", Kind: runner.Number, Full: "10", Quick: "2", Long: "100", Least: 1, Help: "how much it does; 1 is a second or so"}},
		Phases: func(values runner.Values) []runner.Phase {
			return []runner.Phase{{Name: "the program", Rows: append(runner.ProgramRows(), runner.LowerRow("RSS after the fall", "bytes")),
				Do: func(ctx context.Context, v *runner.Visit) error {
					path, err := v.WriteFile(file, text)
					if err != nil {
						return err
					}
					_, err = v.Program(ctx, runner.ServerSpec{Name: name, Path: v.Paths[interpreter.Program], Args: []string{path, values["size"]}, Env: env})
					return err
				}}}
		},
	}
}
