package deploy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	unitfile "github.com/coreos/go-systemd/v22/unit"
)

// dropInName is the file that is written into a unit's folder of drop-ins.
const dropInName = "granary.conf"

// mark begins every drop-in that this command wrote.
const mark = "# Written by `granary enable"

// A dropIn is the content of a drop-in file of a service.
type dropIn struct {
	service   string // as the user named it
	version   string // of this command
	preload   []string
	options   string   // GRANARY_CONF, or ""
	execPaths []string // files that the unit must also be allowed to execute
}

// library is the first preloaded library: Granary.
func (d dropIn) library() string {
	if len(d.preload) == 0 {
		return ""
	}
	return d.preload[0]
}

// variables are the settings of the environment, NAME=VALUE.
func (d dropIn) variables() []string {
	out := []string{"LD_PRELOAD=" + strings.Join(d.preload, ":")}
	if d.options != "" {
		out = append(out, "GRANARY_CONF="+d.options)
	}
	return out
}

// text is the file.
func (d dropIn) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s` (Granary %s), which writes this file anew each time.\n", mark, d.service, d.version)
	fmt.Fprintf(&b, "# `granary disable %s` removes it. Put your own settings into another file.\n[Service]\n", d.service)
	for _, v := range d.variables() {
		fmt.Fprintf(&b, "Environment=\"%s\"\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(v))
	}
	if len(d.execPaths) > 0 {
		b.WriteString("# The unit allows only some files to be executed (NoExecPaths=).\n")
		fmt.Fprintf(&b, "ExecPaths=%s\n", strings.Join(d.execPaths, " "))
	}
	return b.String()
}

var errNotWrittenByEnable = errors.New("another's file")

// readDropIn reads a drop-in that text wrote. The error matches fs.ErrNotExist if there is no file, and
// errNotWrittenByEnable if another program wrote the file.
func readDropIn(path string) (dropIn, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return dropIn{}, fmt.Errorf("read the drop-in %s: %w", path, err)
	}
	if !strings.HasPrefix(string(data), mark) {
		return dropIn{}, fmt.Errorf("%s was not written by `granary enable`: move it away, or name it otherwise%w", path, silent{errNotWrittenByEnable})
	}
	d := dropIn{}
	d.service, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(data), mark)), "`")
	options, err := unitfile.DeserializeOptions(strings.NewReader(string(data)))
	if err != nil {
		return d, fmt.Errorf("the drop-in %s is damaged, `granary enable %s` writes it anew: %w", path, d.service, err)
	}
	for _, o := range options {
		value := strings.ReplaceAll(strings.Join(split(o.Value), " "), "%%", "%")
		switch {
		case strings.HasPrefix(value, "LD_PRELOAD="):
			d.preload = strings.FieldsFunc(strings.TrimPrefix(value, "LD_PRELOAD="), separator)
		case strings.HasPrefix(value, "GRANARY_CONF="):
			d.options = strings.TrimPrefix(value, "GRANARY_CONF=")
		case o.Name == "ExecPaths":
			d.execPaths = split(o.Value)
		}
	}
	return d, nil
}

// silent lends an error its kind without its words.
type silent struct{ kind error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.kind }

func separator(r rune) bool { return r == ':' || r == ' ' }

// writeFile puts text at path in one step, so that systemd never reads half of it.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return rights(err)
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return rights(err)
	}
	if err := os.Rename(draft, path); err != nil {
		return errors.Join(rights(err), os.Remove(draft))
	}
	return nil
}

// removeFile takes path away, and its folder if nothing else is in it.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return rights(err)
	}
	// A folder that is not empty stays: other drop-ins are in it.
	if entries, err := os.ReadDir(filepath.Dir(path)); err == nil && len(entries) == 0 {
		return rights(os.Remove(filepath.Dir(path)))
	}
	return nil
}

func rights(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run it as root, as in `sudo granary ...`", err)
	}
	return err
}
