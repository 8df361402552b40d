package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
)

// classNames are the values of --classes. Size classes are compiled into the library, so each has a program; the first one's is
// made of the library's own objects.
var classNames = []string{"fine", "coarse"}

var programOfClasses = map[string]string{"fine": "simulate", "coarse": "simulate_coarse"}

// A variant is a setting of the library, with one of the sets of size classes.
type variant struct {
	program, classes, setting string
}

// variants are all settings with each of the size classes.
func (o *simulateOptions) variants(settings []string, exe string) ([]variant, error) {
	var out []variant
	for i, classes := range o.classes {
		name, known := programOfClasses[classes]
		if !known {
			return nil, cli.Usagef("--classes %s is unknown: give %s", classes, strings.Join(classNames, " or "))
		}
		if slices.Contains(o.classes[:i], classes) {
			return nil, cli.Usagef("--classes has %s twice", classes)
		}
		program, err := o.program(exe, name)
		if err != nil {
			return nil, err
		}
		for _, setting := range settings {
			out = append(out, variant{program, classes, setting})
		}
	}
	if len(out) == 0 {
		return nil, cli.Usagef("--classes is empty: give %s", strings.Join(classNames, " or "))
	}
	return out, nil
}

func (o *simulateOptions) program(exe, name string) (string, error) {
	if o.programs == "" {
		return preload.BenchProgram(exe, name)
	}
	path := filepath.Join(o.programs, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s holds no program %s; build it with `make programs`", o.programs, name)
	}
	return path, nil
}
