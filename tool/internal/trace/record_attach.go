package trace

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// The recorder's switch, two words (core/record/recorder.h): 0 begins a recording, the largest number ends it.
const (
	switchSymbol = "granary_record_switch"
	switchOn     = 0
	switchOff    = math.MaxUint64
)

// The variables of a process that was started with the recorder (core/record/attach.cc): each ends with 0, the last with two.
const (
	settingsSymbol = "granary_record_settings"
	settingsBytes  = 8192
)

// process tells whether the arguments are a process instead of a program.
func process(env cli.Env, args []string) (int, bool) {
	if len(args) != 1 {
		return 0, false
	}
	if _, err := preload.Resolve(args[0], env.Getenv("PATH")); err == nil {
		return 0, false
	}
	pid, err := cli.PID(args[0])
	return pid, err == nil
}

// attach records a running process. If it was started with the recorder, that is switched on; otherwise the recorder is
// loaded into it.
func (o *recordOptions) attach(ctx context.Context, env cli.Env, pid int, named bool) error {
	if o.follow || o.wait {
		return errors.New("--follow and --wait belong to the start of a program: leave them out for a process")
	}
	if o.seconds < 0 || o.seconds > 30*24*3600 {
		return errors.New("--seconds must be above zero, and 30 days at most")
	}
	proc := procfs.Live()
	path, err := recordingOf(proc, pid)
	if err != nil {
		return err
	}
	if path == "" {
		return o.inject(ctx, env, proc, pid)
	}
	return o.switched(ctx, env, proc, pid, path, named)
}

// switched records a process that was started with the recorder, which writes to path.
func (o *recordOptions) switched(ctx context.Context, env cli.Env, proc procfs.FS, pid int, path string, named bool) error {
	if o.sample != 1 || o.raw || o.stacks || o.last || o.written {
		return errors.New("the process was started with the recorder: --sample, --stacks, --written, --keep-last and --raw belong to its start")
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s holds an earlier recording, which is not replaced: move it first", path)
	}
	control, err := findSwitch(proc, pid)
	if err != nil {
		return err
	}
	defer control.close()
	if err := control.set(switchOn); err != nil {
		return err
	}
	if err := o.await(ctx, proc, pid, control, path); err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("process %d recorded nothing: it made no call, or could not create %s", pid, path)
	}
	if named {
		if path, err = moved(path, o.out); err != nil {
			return err
		}
	}
	return o.finishFile(env, path)
}

// await lets the recording into path go on for as long as the user wants, and ends it.
func (o *recordOptions) await(ctx context.Context, proc procfs.FS, pid int, control control, path string) error {
	defer o.packLive(path)()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.seconds > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(o.seconds*float64(time.Second)))
		defer end()
	}
	awaitEnd(ctx, proc, pid)
	if err := control.set(switchOff); err != nil {
		if proc.Alive(pid) {
			return err
		}
		return nil
	}
	endNow(path)
	return nil
}

// awaitEnd waits for the end of the recording or of the process.
func awaitEnd(ctx context.Context, proc procfs.FS, pid int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for proc.Alive(pid) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// moved brings a recording to the path that the user wants.
func moved(from, to string) (string, error) {
	to, err := filepath.Abs(to)
	if err != nil || from == to {
		return from, err
	}
	if _, err := os.Lstat(to); err == nil {
		if err := removeTrace(to); err != nil {
			return "", fmt.Errorf("the trace stays in %s: %w", from, err)
		}
	}
	if err := os.Rename(from, to); err != nil {
		return "", fmt.Errorf("the trace stays in %s: %w", from, err)
	}
	return to, nil
}

// recordingOf is where the recorder of a process writes with which it was started; empty: there is none.
func recordingOf(proc procfs.FS, pid int) (string, error) {
	environ, err := proc.Environ(pid)
	if err != nil {
		return "", proc.Explain(pid, err)
	}
	if path := recordingIn(environ); path != "" {
		return path, nil
	}
	r, err := findRecorder(proc, pid) // redis-server and others overwrite their environment
	if err != nil || r == nil {
		return "", err
	}
	kept := make([]byte, settingsBytes)
	if err := r.read(settingsSymbol, kept); err != nil {
		return "", err
	}
	return recordingIn(strings.Split(string(kept), "\x00")), nil
}

func recordingIn(environ []string) string {
	for _, row := range environ {
		if path, found := strings.CutPrefix(row, "GRANARY_RECORD="); found && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// A recorder is the library in another process.
type recorder struct {
	proc  procfs.FS
	pid   int
	start uint64   // of its first byte
	files []string // the first of them that can be read is it; the name of one that was replaced leads elsewhere
}

// findRecorder is nil where the process has none.
func findRecorder(proc procfs.FS, pid int) (*recorder, error) {
	maps, err := proc.Maps(pid)
	if err != nil {
		return nil, proc.Explain(pid, err)
	}
	i := slices.IndexFunc(maps, func(m procfs.Mapping) bool { return filepath.Base(m.Path) == preload.RecorderName && m.Offset == 0 })
	if i < 0 {
		return nil, nil
	}
	m := maps[i]
	return &recorder{proc, pid, m.Start, []string{proc.Path(pid, fmt.Sprintf("map_files/%x-%x", m.Start, m.End)), m.Path}}, nil
}

func (r *recorder) read(symbol string, to []byte) error {
	offset, err := symbolIn(symbol, r.files...)
	if err != nil {
		return err
	}
	memory, err := os.Open(r.proc.Path(r.pid, "mem"))
	if err != nil {
		return r.proc.Explain(r.pid, err)
	}
	defer memory.Close()
	if _, err := memory.ReadAt(to, int64(r.start+offset)); err != nil {
		return fmt.Errorf("read the recorder of process %d: %w", r.pid, err)
	}
	return nil
}

// A control is the recorder's switch in another process.
type control struct {
	memory  *os.File
	address int64
}

func (c control) close() { c.memory.Close() }

func (c control) set(value uint64) error {
	words := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, value), value)
	if _, err := c.memory.WriteAt(words, c.address); err != nil {
		return fmt.Errorf("switch the recording: %w", err)
	}
	return nil
}

func findSwitch(proc procfs.FS, pid int) (control, error) {
	r, err := findRecorder(proc, pid)
	if err != nil {
		return control{}, err
	}
	if r == nil {
		return control{}, fmt.Errorf("process %d has dropped the recorder: it is static, or removed LD_PRELOAD", pid)
	}
	var pointer [8]byte
	if err := r.read(switchSymbol, pointer[:]); err != nil {
		return control{}, err
	}
	address := int64(binary.LittleEndian.Uint64(pointer[:]))
	if address <= 0 {
		return control{}, fmt.Errorf("the recorder of process %d has not started: try again", pid)
	}
	memory, err := os.OpenFile(proc.Path(pid, "mem"), os.O_RDWR, 0)
	if err != nil {
		return control{}, proc.Explain(pid, err)
	}
	return control{memory, address}, nil
}

// symbolIn is the offset of a symbol in the first of the files that can be read.
func symbolIn(symbol string, paths ...string) (uint64, error) {
	var f *elf.File
	var err error
	for _, path := range paths {
		if f, err = elf.Open(path); err == nil {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read the recorder: %w", err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the recorder: %w", err)
	}
	for _, s := range symbols {
		if s.Name == symbol && s.Section != elf.SHN_UNDEF {
			return s.Value, nil
		}
	}
	return 0, errors.New("the recorder of this process cannot be switched on: it is an older one; start the program again")
}
