package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// machine is where services are enabled.
type machine struct {
	root    string // "/", or the folder of an image
	etc     string // the folder of drop-ins, below root
	live    bool   // services run here, so that they can be reloaded and restarted
	proc    procfs.FS
	manager manager
	// settle is the time that a service must run under Granary to count as started; patience is the time
	// that this may take after systemd has started it.
	settle, patience time.Duration
	say              func(format string, args ...any)
}

func (m machine) file(path string) string { return filepath.Join(m.root, path) }

// show prints the actions of a plan.
func (m machine) show(p plan, restart bool) {
	m.say("would write %s:", m.file(p.path))
	for line := range strings.Lines(p.drop.text()) {
		m.say("    %s", strings.TrimSuffix(line, "\n"))
	}
	if !m.live {
		return
	}
	m.say("would run: systemctl daemon-reload")
	if restart {
		m.say("would run: systemctl restart %s", p.unit.id)
		m.say("would check that Granary is in its main process, and take all of it back if not")
	}
}

// enable carries a plan out. After a failure everything is as before.
func (m machine) enable(ctx context.Context, p plan, restart bool) error {
	text := p.drop.text()
	changed := text != p.before
	if changed {
		if err := writeFile(m.file(p.path), text); err != nil {
			return err
		}
	}
	if !m.live {
		m.tell(p, changed, "")
		return nil
	}
	began := time.Now()
	if err := m.effective(ctx, p, changed); err != nil {
		return m.back(ctx, p, false, began, err)
	}
	if !restart {
		m.tell(p, changed, m.pending(ctx, p))
		return nil
	}
	h, err := m.restart(ctx, p.unit.id, p.drop)
	if err != nil {
		return m.back(ctx, p, true, began, err)
	}
	m.tell(p, changed, fmt.Sprintf("restarted: process %d runs %s, %d of its %s", h.PID, h.Allocator, h.UnderGranary, processes(h.Processes)))
	return nil
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// effective makes systemd read the drop-in and checks that its settings are in force.
func (m machine) effective(ctx context.Context, p plan, changed bool) error {
	if changed {
		if err := m.manager.call(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	u, err := m.manager.find(ctx, []string{p.unit.id})
	if err != nil {
		return err
	}
	if got := u.environment("LD_PRELOAD"); got != strings.Join(p.drop.preload, ":") {
		return fmt.Errorf("LD_PRELOAD of %s is %q in spite of the drop-in: take it out of %s", p.unit.id, got, firstOf(strings.Join(u.overridden(p.path), " or "), "the unit"))
	}
	return nil
}

// pending prints the remaining action when nothing was restarted.
func (m machine) pending(ctx context.Context, p plan) string {
	u, err := m.manager.find(ctx, []string{p.unit.id})
	if err != nil || !u.active() {
		return "it is not running: it will start under Granary"
	}
	h := Health{PID: u.number("MainPID")}
	if examine(m.proc, &h, p.drop); h.Healthy && h.Reason == "" {
		return fmt.Sprintf("process %d runs %s", h.PID, h.Allocator)
	}
	return fmt.Sprintf("it runs as before until it is restarted: `systemctl restart %s`, or --restart", p.unit.id)
}

func (m machine) tell(p plan, changed bool, state string) {
	verb := "wrote"
	if !changed {
		verb = "nothing to change in"
	}
	m.say("%s: %s %s", p.unit.id, verb, m.file(p.path))
	if state != "" {
		m.say("%s: %s", p.unit.id, state)
	}
	for _, n := range p.notes {
		m.say("note: %s", n)
	}
}

// restart starts a unit anew and waits until it has run under Granary for a while.
func (m machine) restart(ctx context.Context, id string, d dropIn) (Health, error) {
	if err := m.manager.call(ctx, "restart", id); err != nil {
		return Health{}, fmt.Errorf("it did not start: %w", err)
	}
	return m.watch(ctx, id, func(h *Health) { examine(m.proc, h, d) })
}

// watch waits until the main process of a unit has been healthy, and the same, for the settling time.
func (m machine) watch(ctx context.Context, id string, check func(*Health)) (h Health, err error) {
	deadline := time.Now().Add(m.patience)
	var since time.Time
	for first := 0; ; {
		u, err := m.manager.find(ctx, []string{id})
		if err != nil {
			return h, err
		}
		h = Health{Unit: id, PID: u.number("MainPID")}
		switch {
		case u.is("ActiveState", "failed"):
			return h, fmt.Errorf("it failed after its start (%s)", u.properties["Result"])
		case !u.active():
			h.Reason = "it is " + firstOf(u.properties["ActiveState"], "in an unknown state")
		case h.PID == 0:
			h.Reason = "systemd knows no main process of it"
		default:
			check(&h)
		}
		if !h.Healthy {
			since = time.Time{}
		} else if since.IsZero() || h.PID != first {
			since, first = time.Now(), h.PID
		}
		if h.Healthy && time.Since(since) >= m.settle {
			return h, nil
		}
		if time.Now().After(deadline) {
			if h.Healthy {
				return h, errors.New("it keeps being started anew")
			}
			return h, h.error()
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return h, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case <-time.After(d):
		return nil
	}
}

// back undoes enable, also after an interrupt, and reports the state.
func (m machine) back(ctx context.Context, p plan, restarted bool, began time.Time, cause error) error {
	ctx = context.WithoutCancel(ctx)
	var log string
	if restarted {
		log = m.manager.log(ctx, p.unit.id, began)
	}
	state, err := m.restore(ctx, p, restarted)
	if err != nil {
		return fmt.Errorf("%s could not be put under Granary: %w; and the change could not be reverted: %w%s", p.unit.id, cause, err, indented(log))
	}
	return fmt.Errorf("%s could not be put under Granary, %s: %w%s", p.unit.id, state, cause, indented(log))
}

// restore brings back the drop-in that was there, or none, and the service to how it was.
func (m machine) restore(ctx context.Context, p plan, restarted bool) (string, error) {
	var err error
	if p.before != "" {
		err = writeFile(m.file(p.path), p.before)
	} else {
		err = removeFile(m.file(p.path))
	}
	if err == nil {
		err = m.manager.call(ctx, "daemon-reload")
	}
	if err != nil || !restarted {
		return "nothing was changed", err
	}
	if !p.unit.active() {
		return "it is stopped again, as it was", m.manager.call(ctx, "stop", p.unit.id)
	}
	if err := m.manager.call(ctx, "reset-failed", p.unit.id); err != nil {
		return "", err
	}
	if err := m.manager.call(ctx, "restart", p.unit.id); err != nil {
		return "", err
	}
	_, err = m.watch(ctx, p.unit.id, func(h *Health) { h.Healthy = true })
	return "it runs again as before", err
}

// indented formats a log for printing below a message.
func indented(log string) string {
	if log == "" {
		return ""
	}
	return "\n    " + strings.ReplaceAll(log, "\n", "\n    ")
}

// current reads the drop-in of a unit; false if the unit has none.
func (m machine) current(id string) (dropIn, bool, error) {
	d, err := readDropIn(m.file(dropInPath(m.etc, id)))
	if isGone(err) {
		return d, false, nil
	}
	return d, err == nil, err
}

// disable takes the drop-in of a unit away.
func (m machine) disable(ctx context.Context, u unit, restart bool) error {
	_, enabled, err := m.current(u.id)
	if err != nil {
		return err
	}
	path := m.file(dropInPath(m.etc, u.id))
	if enabled {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the drop-in: %w", err)
		}
		if err := removeFile(path); err != nil {
			return err
		}
		if err := m.manager.call(ctx, "daemon-reload"); err != nil {
			if back := writeFile(path, string(data)); back != nil {
				return fmt.Errorf("%w; the drop-in could not be restored: %w", err, back)
			}
			return fmt.Errorf("%w; the drop-in is restored", err)
		}
		m.say("%s: removed %s", u.id, path)
	} else {
		m.say("%s: it is not enabled, there is no %s", u.id, path)
	}
	if !m.live || !u.active() {
		return nil
	}
	return m.without(ctx, u, restart)
}

// without restarts a unit that still runs Granary, or says that it does.
func (m machine) without(ctx context.Context, u unit, restart bool) error {
	h := Health{PID: u.number("MainPID")}
	examine(m.proc, &h, dropIn{})
	if !h.granary() {
		m.say("%s: process %d runs %s", u.id, h.PID, h.Allocator)
		return nil
	}
	if !restart {
		m.say("%s: process %d runs %s until it is restarted: `systemctl restart %s`, or --restart", u.id, h.PID, h.Allocator, u.id)
		return nil
	}
	if err := m.manager.call(ctx, "restart", u.id); err != nil {
		return fmt.Errorf("%s did not start without Granary: %w", u.id, err)
	}
	h, err := m.watch(ctx, u.id, func(h *Health) {
		examine(m.proc, h, dropIn{})
		if h.Healthy = !h.granary() && h.Allocator != ""; !h.Healthy {
			h.Reason = "Granary is still loaded, by another setting: check LD_PRELOAD in `systemctl show`, and in /etc/ld.so.preload"
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", u.id, err)
	}
	m.say("%s: restarted: process %d runs %s", u.id, h.PID, h.Allocator)
	return nil
}
