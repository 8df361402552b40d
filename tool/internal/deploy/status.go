package deploy

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/term"
)

// enabled returns the names of the units that have a drop-in written by this command.
func (m machine) enabled() ([]string, error) {
	paths, err := filepath.Glob(m.file(filepath.Join(m.etc, "*"+suffix+".d", dropInName)))
	if err != nil {
		return nil, fmt.Errorf("find drop-ins: %w", err)
	}
	var ids []string
	for _, p := range paths {
		id := strings.TrimSuffix(filepath.Base(filepath.Dir(p)), ".d")
		if _, enabled, err := m.current(id); enabled || err != nil && !strings.Contains(err.Error(), "was not written by") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// status examines one unit.
func (m machine) status(ctx context.Context, id string) Health {
	h := Health{Unit: id}
	d, enabled, err := m.current(id)
	switch {
	case err != nil:
		h.Reason = err.Error()
		return h
	case !enabled:
		h.Reason = "not enabled: `granary enable " + aboutUnit(id).Name + "` does that"
		return h
	}
	h.DropIn = m.file(dropInPath(m.etc, id))
	if !isFile(m.file(d.library())) {
		h.Reason = fmt.Sprintf("the library %s is gone: install it again, or `granary disable %s`", d.library(), d.service)
		return h
	}
	if !m.live {
		h.Healthy, h.Reason = true, "enabled; nothing runs in an image"
		return h
	}
	u, err := m.manager.find(ctx, []string{id})
	switch {
	case err != nil:
		h.Reason = err.Error()
	case !u.active():
		h.Reason = fmt.Sprintf("not running (%s): `systemctl status %s` says why", u.properties["ActiveState"], id)
	case u.number("MainPID") == 0:
		h.Reason = "systemd knows no main process of it"
	default:
		h.PID = u.number("MainPID")
		examine(m.proc, &h, d)
	}
	return h
}

// table is the output of `granary status`.
func table(out io.Writer, list []Health, width int) {
	t := term.Table{Header: []string{"UNIT", " PID", "ALLOCATOR", " LIVE", " RSS", "STATE"}}
	for _, h := range list {
		state := "healthy"
		switch {
		case !h.Healthy || h.PID == 0:
			state = h.Reason
		default:
			if h.Processes > 1 {
				state += fmt.Sprintf(", %d of %d processes", h.UnderGranary, h.Processes)
			}
			if h.Reason != "" {
				state += "; " + h.Reason
			}
		}
		row := []string{h.Unit, "-", firstOf(h.Allocator, "-"), "-", "-", state}
		if h.PID > 0 {
			row[1], row[4] = fmt.Sprint(h.PID), term.Bytes(h.RSS)
		}
		if h.Healthy && h.PID > 0 {
			row[3] = term.Bytes(h.Live)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Write(out, width)
}
