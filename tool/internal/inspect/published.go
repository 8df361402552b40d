package inspect

import (
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
	p := &published{pid: pid, path: fmt.Sprintf("/dev/shm/granary.%d", fs.NumberInside(pid)), owner: stat.Uid}
	if err := p.refresh(); err != nil {
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
