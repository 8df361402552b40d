package trace

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inject"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// What granary_record_attach returns (core/record/attach.cc).
const (
	attachRecords = iota
	attachNoAllocator
	attachNoFile
	attachNoSlots
)

const attachSymbol = "granary_record_attach"

// patience is how long a process may compute before it waits for something.
const patience = 10 * time.Second

// inject loads the recorder into a process, and records it.
func (o *recordOptions) inject(ctx context.Context, env cli.Env, proc procfs.FS, pid int) error {
	most, err := o.check()
	if err != nil {
		return err
	}
	library, err := preload.Recorder(o.lib, env.Exe)
	if err != nil {
		return err
	}
	if err := injectable(proc, pid, library); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if err := o.makeRoom(); err != nil {
		return err
	}
	if err := o.begin(proc, pid, library, most); err != nil {
		return err
	}
	control, err := findSwitch(proc, pid)
	if err != nil {
		return err
	}
	defer control.close()
	if err := o.await(ctx, proc, pid, control, o.out); err != nil {
		return err
	}
	return o.finishFile(env, o.out)
}

// injectable says what keeps the recorder from a process, before anything of it is touched.
func injectable(proc procfs.FS, pid int, library string) error {
	exe, err := elf.Open(proc.Path(pid, "exe"))
	if err != nil {
		return proc.Explain(pid, err)
	}
	defer exe.Close()
	if exe.Class != elf.ELFCLASS64 {
		return fmt.Errorf("process %d is a 32-bit program, which the recorder cannot be loaded into", pid)
	}
	if !slices.ContainsFunc(exe.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("process %d is a static program, which the recorder cannot be loaded into", pid)
	}
	symbols, _ := exe.DynamicSymbols() // without any it calls no malloc
	if slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "malloc" && s.Section != elf.SHN_UNDEF }) {
		return fmt.Errorf("process %d has malloc in its own program, whose calls lead through no slot that the recorder could take", pid)
	}
	if _, err := os.Stat(proc.Path(pid, "root"+library)); err != nil {
		return fmt.Errorf("process %d does not see %s: it runs in a container; copy the recorder to that path in it", pid, library)
	}
	return nil
}

// begin borrows a thread of the process, which loads the recorder and begins the recording.
func (o *recordOptions) begin(proc procfs.FS, pid int, library string, most uint64) error {
	load, err := inject.Function(proc, pid, "dlopen", "libc.so", "libc-", "libdl.so", "libdl-", "ld-musl")
	if err != nil {
		return err
	}
	thread, err := inject.Borrow(proc, pid, patience)
	if errors.Is(err, inject.ErrBusy) {
		return fmt.Errorf("process %d cannot be attached to: %w; try again, or start it with `granary record --wait -- CMD`", pid, err)
	}
	if err != nil {
		return err
	}
	result, err := o.beginOn(thread, proc, pid, load, library, most)
	if err = errors.Join(err, thread.Close()); err != nil {
		return err
	}
	return attachError(pid, result, o.out)
}

func (o *recordOptions) beginOn(thread inject.Thread, proc procfs.FS, pid int, load uint64, library string, most uint64) (uint64, error) {
	const now = 2 // RTLD_NOW, and for no other library
	handle, err := thread.Run(inject.Call{Function: load, Text: library, Second: now})
	if err != nil {
		return 0, err
	}
	if handle == 0 {
		return 0, fmt.Errorf("process %d cannot load %s: it may not read the file, or has too old a C library", pid, library)
	}
	attach, err := inject.Function(proc, pid, attachSymbol, preload.RecorderName)
	if err != nil {
		return 0, err
	}
	result, err := thread.Run(inject.Call{Function: attach, Text: strings.Join(o.variables(most), "\x00") + "\x00"})
	return result & 0xffffffff, err
}

func attachError(pid int, result uint64, out string) error {
	switch result {
	case attachRecords:
		return nil
	case attachNoAllocator:
		return fmt.Errorf("process %d has no malloc of its C library or of a preloaded one", pid)
	case attachNoFile:
		return fmt.Errorf("process %d could not create %s: name a file with -o in a folder that it may write to and that has room", pid, out)
	case attachNoSlots:
		return fmt.Errorf("process %d calls malloc nowhere that the recorder could see: it has its own copy of an allocator", pid)
	}
	return fmt.Errorf("the recorder in process %d is of another version: start the process again", pid)
}
