package inspect

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// published is what a process with option stats_file writes once a second: a core file of the memory
// that the figures come from (core/src/inspection/publish.h).
type published struct {
	pid   int
	path  string
	owner uint32
	now   *core
	taken time.Time
}

func openPublished(fs procfs.FS, pid int) (*Target, error) {
	info, err := os.Stat(fs.Path(pid, ""))
	if err != nil {
		return nil, gone(pid)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, noRights(pid)
	}
	started, err := fs.Stat(pid)
	if err != nil {
		return nil, gone(pid)
	}
	p := &published{pid: pid, owner: stat.Uid}
	for _, p.path = range publishedPaths(pid, fs.NumberInside(pid), started.StartTicks) {
		if err = p.refresh(); !errors.Is(err, ErrNoRights) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	t, err := open(p, p.now.images())
	if err != nil {
		p.close()
		return nil, err
	}
	t.PID, t.Published = pid, true
	return t, nil
}

// publishedPaths are the files that a process may publish: processes of several PID namespaces share numbers, and
// their starts tell them apart. Older libraries, and processes without /proc, leave the start out; that file is another
// process's where the number is one of another namespace.
func publishedPaths(pid, inside int, ticks uint64) []string {
	const folder = "/dev/shm/granary."
	paths := []string{fmt.Sprintf("%s%d.%d", folder, inside, ticks)}
	if pid == inside {
		paths = append(paths, fmt.Sprintf("%s%d", folder, inside))
	}
	return paths
}

// refresh takes up the newest file, if it is the process's own.
func (p *published) refresh() error {
	if _, err := os.Stat(procfs.Live().Path(p.pid, "")); err != nil {
		return gone(p.pid)
	}
	file, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return failure(ErrNoRights, "process %d may not be read and publishes no figures: run the command as root, or start the program with GRANARY_CONF=stats_file:true", p.pid)
	}
	info, err := file.Stat()
	if err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != p.owner || !info.Mode().IsRegular() {
			err = failure(ErrDamaged, "%s was not written by process %d: remove it", p.path, p.pid)
		}
	}
	var now *core
	if err == nil {
		now, err = parseCore(file)
	}
	if err != nil {
		file.Close()
		return err
	}
	p.close()
	p.now, p.taken = now, info.ModTime()
	return nil
}

func (p *published) read(spans []span) error { return p.now.read(spans) }

func (p *published) close() error {
	if p.now == nil {
		return nil
	}
	return p.now.close()
}
