package inspect

import (
	"encoding/hex"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// A Module is a mapping of a file that may contain code.
type Module struct {
	Start, End, Offset uint64 // addresses, and where in the file it begins
	Path               string // inside the process' root
	BuildID            string // in hexadecimal; empty if the file has none
}

// Modules are the mappings with code, by address. Of a core file, which does not tell what may run,
// they are all mappings of files.
func (t *Target) Modules() ([]Module, error) {
	var modules []Module
	if c, ok := t.memory.(*core); ok {
		for _, m := range c.mappings {
			modules = append(modules, Module{Start: m.start, End: m.end, Offset: m.offset, Path: strings.TrimSuffix(m.path, " (deleted)")})
		}
		t.buildIDs(modules, c.images())
		return modules, nil
	}
	maps, err := procfs.Live().Maps(t.PID)
	if err != nil {
		return nil, explainMaps(procfs.Live(), t.PID, err)
	}
	for _, m := range maps {
		if len(m.Perms) > 2 && m.Perms[2] == 'x' && m.Path != "" {
			modules = append(modules, Module{Start: m.Start, End: m.End, Offset: m.Offset, Path: strings.TrimSuffix(m.Path, " (deleted)")})
		}
	}
	t.buildIDs(modules, imagesOf(maps))
	return modules, nil
}

// buildIDs reads the ids from the heads of the files in memory: those on disk may be others by now.
func (t *Target) buildIDs(modules []Module, images []image) {
	ids := map[string]string{}
	for _, i := range images {
		if _, ok := ids[i.path]; !ok {
			ids[i.path] = buildID(t.memory, i)
		}
	}
	for i := range modules {
		modules[i].BuildID = ids[modules[i].Path]
	}
}

// buildID is empty where the file has none, or its head is not in memory.
func buildID(m memory, i image) (id string) {
	blocks, err := noteBlocks(m, i)
	if err != nil {
		return ""
	}
	for _, b := range blocks {
		visitNotes(b.bytes, func(name string, kind uint32, descriptor []byte, _ int) {
			const ntGNUBuildID = 3
			if name == "GNU" && kind == ntGNUBuildID && len(descriptor) > 0 {
				id = hex.EncodeToString(descriptor)
			}
		})
	}
	return id
}
