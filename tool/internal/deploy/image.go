package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	unitfile "github.com/coreos/go-systemd/v22/unit"
)

// image is a system that does not run, in a folder. Only its files are read.
type image struct{ root string }

// unitDirs are the folders of unit files; earlier ones take precedence.
var unitDirs = []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

func (m image) find(_ context.Context, names []string) (unit, error) {
	for _, name := range names {
		for _, dir := range unitDirs {
			paths, err := filepath.Glob(filepath.Join(m.root, dir, name))
			if err != nil {
				return unit{}, fmt.Errorf("%q is no name of a unit: %w", name, err)
			}
			if len(paths) > 0 {
				return m.read(paths[0])
			}
			if file := templateOf(name); file != name && isFile(filepath.Join(m.root, dir, file)) {
				u, err := m.read(filepath.Join(m.root, dir, file))
				u.id = name
				return u, err
			}
		}
	}
	return unit{}, fmt.Errorf("there is no unit %s below %s%w", strings.Join(names, " or "), m.root, silent{errNoUnit})
}

// templateOf is the file of an instance: that of a@b.service is a@.service.
func templateOf(name string) string {
	before, after, ok := strings.Cut(name, "@")
	if !ok || after == suffix {
		return name
	}
	return before + "@" + suffix
}

// read collects the settings of a unit file and its drop-ins. A symbolic link is an alias of the unit it points to.
func (m image) read(path string) (unit, error) {
	if to, err := os.Readlink(path); err == nil {
		if filepath.Base(to) == "null" {
			return unit{id: filepath.Base(path), properties: map[string]string{"LoadState": "masked"}}, nil
		}
		return m.find(context.Background(), []string{filepath.Base(to)})
	}
	u := unit{id: filepath.Base(path), properties: map[string]string{"LoadState": "loaded"}}
	drops := m.dropIns(u.id)
	for _, file := range append([]string{path}, drops...) {
		if err := u.add(file); err != nil {
			return u, err
		}
	}
	for i := range drops {
		drops[i] = "/" + strings.TrimPrefix(drops[i], filepath.Clean(m.root)+"/")
	}
	u.properties["DropInPaths"] = strings.Join(drops, " ")
	return u, nil
}

// dropIns are those of a unit, in the order of their names.
func (m image) dropIns(id string) []string {
	byName := map[string]string{}
	for _, dir := range unitDirs {
		paths, _ := filepath.Glob(filepath.Join(m.root, dir, id+".d", "*.conf")) // the pattern is well formed
		for _, p := range paths {
			if byName[filepath.Base(p)] == "" {
				byName[filepath.Base(p)] = p
			}
		}
	}
	var names, out []string
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, byName[name])
	}
	return out
}

// lists are the settings that add up; an empty one begins anew.
var lists = []string{"Environment", "ExecPaths", "NoExecPaths", "ExecStart"}

func (u unit) add(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a unit: %w", err)
	}
	defer file.Close()
	options, err := unitfile.DeserializeOptions(file)
	if err != nil {
		return fmt.Errorf("read the unit %s: %w", path, err)
	}
	for _, o := range options {
		if o.Section != "Service" {
			continue
		}
		if slices.Contains(lists, o.Name) && o.Value != "" {
			o.Value = strings.TrimSpace(u.properties[o.Name] + " " + strings.ReplaceAll(o.Value, "%%", "%"))
		}
		u.properties[o.Name] = o.Value
	}
	return nil
}

func (m image) call(context.Context, ...string) error { return nil }

func (m image) log(context.Context, string, time.Time) string { return "" }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isGone says that an error means a file that is not there.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
