package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

// WriteFolder writes everything into the folder. markdown is the report in that form.
func WriteFolder(dir string, r *result.Results, goal Goal, markdown []byte) error {
	if err := r.WriteJSON(filepath.Join(dir, result.File)); err != nil {
		return err
	}
	table, err := result.CSV(r)
	if err != nil {
		return err
	}
	cpu, err := ReadCPU(dir, r)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := WritePage(&html, r, goal, cpu); err != nil {
		return err
	}
	files := map[string][]byte{"results.csv": table, "report.md": markdown, "report.html": html.Bytes()}
	for _, g := range All(r) {
		for _, f := range g.Plots {
			var svg, png bytes.Buffer
			if err := errors.Join(f.SVG(&svg), f.PNG(&png)); err != nil {
				return err
			}
			files[filepath.Join("plots", f.Name+".svg")], files[filepath.Join("plots", f.Name+".png")] = svg.Bytes(), png.Bytes()
		}
	}
	if cpu != nil {
		for _, f := range cpu.Flames {
			files[strings.TrimSuffix(result.CPUFile(f.Name), ".pb.gz")+".svg"] = []byte(f.SVG)
		}
	}
	return writeAll(dir, files)
}

func writeAll(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Join(dir, "plots"), 0o755); err != nil {
		return fmt.Errorf("make the folder of the plots: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
