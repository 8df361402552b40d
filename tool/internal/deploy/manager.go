package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A manager controls the services: systemd, or the image of a system that does not run.
type manager interface {
	// find is the first existing unit of these names; its error matches errNoUnit.
	find(ctx context.Context, names []string) (unit, error)
	// call runs a verb of systemctl, for a unit or for none.
	call(ctx context.Context, words ...string) error
	// log is the end of the log that a unit wrote since then.
	log(ctx context.Context, id string, since time.Time) string
}

var errNoUnit = errors.New("no such unit")

// booted says whether systemd runs this machine (sd_booted(3)).
func booted(root string) bool {
	info, err := os.Stat(filepath.Join(root, "/run/systemd/system"))
	return err == nil && info.IsDir()
}

// systemd is that of this machine, by its command.
type systemd struct{}

func (systemd) find(ctx context.Context, names []string) (unit, error) {
	for _, name := range names {
		ids := []string{name}
		if strings.Contains(name, "*") {
			var err error
			if ids, err = matching(ctx, name); err != nil {
				return unit{}, err
			}
		}
		if len(ids) > 1 {
			return unit{}, fmt.Errorf("there are several: name one of %s", strings.Join(ids, ", "))
		}
		for _, id := range ids {
			u, err := show(ctx, id)
			if err != nil || !u.is("LoadState", "not-found") {
				return u, err
			}
		}
	}
	return unit{}, fmt.Errorf("there is no unit %s: `systemctl list-units --type=service` lists those that there are%w", strings.Join(names, " or "), silent{errNoUnit})
}

// matching are the units that a pattern means.
func matching(ctx context.Context, pattern string) ([]string, error) {
	out, err := systemctl(ctx, "list-unit-files", "--no-legend", "--plain", pattern)
	if err != nil && out == "" {
		return nil, nil // systemctl fails where nothing matches
	}
	var ids []string
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 1 && words[1] != "alias" {
			ids = append(ids, words[0])
		}
	}
	return ids, nil
}

func show(ctx context.Context, id string) (unit, error) {
	out, err := systemctl(ctx, "show", "--property="+strings.Join(wanted, ","), "--", id)
	if err != nil {
		return unit{}, err
	}
	u := unit{id: id, properties: map[string]string{}}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			u.properties[name] = value
		}
	}
	if own := u.properties["Id"]; own != "" {
		u.id = own // of an alias, the name of the unit itself
	}
	return u, nil
}

func (systemd) call(ctx context.Context, words ...string) error {
	_, err := systemctl(ctx, words...)
	return err
}

// systemctl runs the command of that name and explains its failure by its output.
func systemctl(ctx context.Context, words ...string) (string, error) {
	var out, errs strings.Builder
	c := exec.CommandContext(ctx, "systemctl", words...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		message, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		if message == "" {
			message = err.Error()
		}
		return out.String(), fmt.Errorf("systemctl %s: %s", words[0], message)
	}
	return out.String(), nil
}

// logLines is how much of a log is shown.
const logLines = 15

func (systemd) log(ctx context.Context, id string, since time.Time) string {
	c := exec.CommandContext(ctx, "journalctl", "--unit="+id, fmt.Sprintf("--lines=%d", logLines), "--no-pager", "--output=cat",
		fmt.Sprintf("--since=@%d", since.Unix()))
	out, err := c.Output()
	if err != nil {
		return "" // a machine without a journal has nothing to show here
	}
	return strings.TrimSpace(string(out))
}
