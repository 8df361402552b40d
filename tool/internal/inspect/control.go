package inspect

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/granary-allocator/granary/tool/internal/procfs"

	"golang.org/x/sys/unix"
)

// A Command is something to ask of a process.
type Command struct {
	name     string
	argument string
}

// Purge gives all free memory of the process back to the system.
func Purge() Command { return Command{name: "purge"} }

// Flush empties the caches of all CPUs into the slabs.
func Flush() Command { return Command{name: "flush"} }

// Reset lets the peaks count from now on.
func Reset() Command { return Command{name: "reset"} }

// Set changes options, "name:value,name:value".
func Set(options string) Command { return Command{name: "set", argument: options} }

// StartProfile takes samples from now on, one in `rate` bytes on average. Ack.Bytes is 1 if none were
// taken before.
func StartProfile(rate uint64) Command {
	return Command{name: "profile_start", argument: strconv.FormatUint(rate, 10)}
}

// StopProfile takes no more samples, and discards those there are.
func StopProfile() Command { return Command{name: "profile_stop"} }

// An Ack is the answer to a Command.
type Ack struct {
	Bytes uint64        // purged, or moved from the caches to the slabs (Flush)
	After time.Duration // from the request to the answer
}

// between is the time between two checks for an answer.
const between = 2 * time.Millisecond

// Request asks the process to do something and waits until it is done, or ctx is. The background thread
// of the process is woken for it; a process without one acts at its next slow path. A request that
// was not answered in time stays and is done later: the error is then ErrNoAnswer.
func (t *Target) Request(ctx context.Context, c Command) (Ack, error) {
	p, ok := t.memory.(process)
	if !ok {
		if t.Published {
			return Ack{}, failure(ErrNoRights, "process %d can be read but not controlled: run the command as root, or with the capability CAP_SYS_PTRACE", t.PID)
		}
		return Ack{}, failure(ErrReadOnly, "a core file cannot be steered: name a process")
	}
	code, ok := t.layout.constants["control."+c.name]
	if _, words := t.layout.cellNames["control.requested"]; !ok || !words {
		return Ack{}, failure(ErrVersion, "the library in the process knows no %s: use the granary command that came with it", c.name)
	}
	if err := t.checkOptions(c); err != nil {
		return Ack{}, err
	}
	begin := time.Now()
	number, err := t.post(p, uint32(code), c.argument)
	if err != nil {
		return Ack{}, err
	}
	word := t.requestWord()
	defer word.close()
	for {
		word.wake()
		answered, err := t.figure("control.answered")
		if err != nil {
			return Ack{}, t.explain(err)
		}
		if uint32(answered) == number {
			ack, err := t.answer(c)
			ack.After = time.Since(begin)
			return ack, err
		}
		select {
		case <-ctx.Done():
			return Ack{}, t.noAnswer(c, time.Since(begin))
		case <-time.After(between):
		}
	}
}

// post writes the request; it writes the request's number last.
func (t *Target) post(p process, code uint32, argument string) (uint32, error) {
	_, room, err := t.place("control.argument")
	if err != nil {
		return 0, err
	}
	if len(argument) >= int(room.width) {
		return 0, failure(ErrReadOnly, "the options are too long: give at most %d characters at a time", room.width-1)
	}
	requested, err := t.figure("control.requested")
	if err != nil {
		return 0, t.explain(err)
	}
	number := uint32(requested)
	for number == uint32(requested) {
		number = rand.Uint32()
	}
	write := func(name string, bytes []byte) {
		var address uint64
		if err == nil {
			address, _, err = t.place(name)
		}
		if err == nil {
			err = p.write(address, bytes)
		}
	}
	write("control.argument", append([]byte(argument), 0))
	write("control.command", binary.LittleEndian.AppendUint32(nil, code))
	write("control.requested", binary.LittleEndian.AppendUint32(nil, number))
	return number, err
}

func (t *Target) answer(c Command) (Ack, error) {
	result, err := t.figure("control.result")
	if err != nil {
		return Ack{}, t.explain(err)
	}
	value, err := t.figure("control.value")
	if err != nil {
		return Ack{}, t.explain(err)
	}
	switch result {
	case t.layout.constant("control.done"):
		return Ack{Bytes: value}, nil
	case t.layout.constant("control.refused"):
		return Ack{}, failure(ErrReadOnly, "the process refused %q: its own standard error says why", c.argument)
	}
	return Ack{}, failure(ErrVersion, "the library in the process does not know %s: use the granary command that came with it", c.name)
}

func (t *Target) noAnswer(c Command, waited time.Duration) error {
	why := "it has no background thread and will do it when it next allocates or frees beyond its caches"
	if stat, err := procfs.Live().Stat(t.PID); err == nil && strings.ContainsAny(stat.State, "Tt") {
		why = "it is stopped, and serves the request when it continues"
	} else if v, err := t.figure("upkeep.background_thread"); err == nil && v == t.layout.constant("upkeep.background_thread_runs") {
		why = "its background thread could not be woken from here and will do it when it next wakes"
	}
	return failure(ErrNoAnswer, "process %d has not served the request %s within %v: %s", t.PID, c.name, waited.Round(time.Second/10), why)
}

// checkOptions refuses what the process would refuse, so that the command prints the reason.
func (t *Target) checkOptions(c Command) error {
	if c.name != "set" {
		return nil
	}
	for row := range strings.SplitSeq(c.argument, ",") {
		name, value, _ := strings.Cut(row, ":")
		if err := t.checkOption(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) checkOption(name, value string) error {
	var names []string
	for _, o := range t.layout.options {
		if o.AtRunTime {
			names = append(names, o.Name)
		}
		if o.Name != name {
			continue
		}
		if !o.AtRunTime {
			return failure(ErrReadOnly, "option %s cannot change while the program runs: set it in GRANARY_CONF before the start", name)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if value == "" || err == nil && (n < o.Lowest || n > o.Highest) {
			return failure(ErrReadOnly, "option %s cannot be %q: give %d to %d", name, value, o.Lowest, o.Highest)
		}
		return nil
	}
	return failure(ErrReadOnly, "the process has no option %q: those that can change while it runs are %s", name, strings.Join(names, ", "))
}

// A requestWord is a page of the library's file, in which a word is a futex that background threads wait on.
type requestWord struct {
	page   []byte
	offset int
}

// requestWord maps the page; without it (the file is gone, or may not be opened) wake does nothing.
func (t *Target) requestWord() *requestWord {
	maps, err := procfs.Live().Maps(t.PID)
	if err != nil {
		return &requestWord{}
	}
	m, ok := procfs.Holding(maps, t.mark.requestWord)
	if !ok {
		return &requestWord{}
	}
	at := m.Offset + t.mark.requestWord - m.Start
	page := uint64(os.Getpagesize())
	for _, path := range []string{
		procfs.Live().Path(t.PID, fmt.Sprintf("map_files/%x-%x", m.Start, m.End)),
		filepath.Join(procfs.Live().Path(t.PID, "root"), m.Path),
	} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		mapped, err := unix.Mmap(int(file.Fd()), int64(at&^(page-1)), int(page), unix.PROT_READ, unix.MAP_SHARED)
		file.Close()
		if err == nil {
			return &requestWord{mapped, int(at & (page - 1))}
		}
	}
	return &requestWord{}
}

func (w *requestWord) wake() {
	if w.page == nil {
		return
	}
	const futexWake = 1
	address := uintptr(unsafe.Pointer(&w.page[w.offset]))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, address, futexWake, math.MaxInt32, 0, 0, 0) // no thread waits, or some do
}

func (w *requestWord) close() {
	if w.page != nil {
		unix.Munmap(w.page)
	}
}
