// Package preload finds the files that come with the command (the library, the recorder, the benchmark programs
// and their suites), puts an allocator into a program through the dynamic loader, and says beforehand when that
// cannot work. The files are in the source tree and its build folder, or where `make install` and the packages put
// them.
package preload

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Program is what decides whether a file can be given another allocator.
type Program struct {
	Path        string
	Machine     elf.Machine
	Class       elf.Class
	Interpreter string // the dynamic loader; empty in a static program
	Needed      []string
	SetUID      bool
	SetGID      bool
	UID, GID    uint32
	HasCaps     bool
	Granary     bool     // Granary is linked in
	Script      []string // the words after #!, when the file is a script
}

// A message is an error message for the user. Its kind decides the exit code and is not printed.
type message struct {
	text string
	kind error
}

func (s message) Error() string { return s.text }
func (s message) Unwrap() error { return s.kind }

func sayf(kind error, format string, args ...any) error {
	return message{fmt.Sprintf(format, args...), kind}
}

// Inspect reads the headers of the program at path.
func Inspect(path string) (Program, error) {
	p := Program{Path: path}
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, sayf(fs.ErrNotExist, "%s does not exist; check the path", path)
	case err != nil:
		return p, err
	}
	defer file.Close()
	if err := p.readOwner(file); err != nil {
		return p, err
	}
	head := make([]byte, 256)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("read %s: %w", path, err)
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		p.Script = strings.Fields(string(line))
		return p, nil
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return p, p.readELF(file)
	}
	return p, sayf(fs.ErrPermission, "%s is neither an ELF program nor a script with #!; name a program", path)
}

func (p *Program) readOwner(file *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fmt.Errorf("stat %s: %w", p.Path, err)
	}
	p.SetUID, p.SetGID = st.Mode&unix.S_ISUID != 0, st.Mode&unix.S_ISGID != 0
	p.UID, p.GID = st.Uid, st.Gid
	size, err := unix.Fgetxattr(int(file.Fd()), "security.capability", nil)
	p.HasCaps = err == nil && size > 0
	return nil
}

func (p *Program) readELF(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return fmt.Errorf("%s has damaged ELF headers: %w", p.Path, err)
	}
	p.Machine, p.Class = f.Machine, f.Class
	p.Granary = marked(f)
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(segment.Open())
		if err != nil {
			return fmt.Errorf("read the loader's name from %s: %w", p.Path, err)
		}
		p.Interpreter = strings.TrimRight(string(name), "\x00")
	}
	p.Needed, err = f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read the libraries %s needs: %w", p.Path, err)
	}
	return nil
}

// marked is true for a file with Granary's ELF note: a size of 8 for the owner's name, and that name.
func marked(f *elf.File) bool {
	name := []byte("Granary\x00")
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_NOTE || segment.Filesz > 1<<16 {
			continue
		}
		notes, err := io.ReadAll(segment.Open())
		if i := bytes.Index(notes, name); err == nil && i >= 12 && f.ByteOrder.Uint32(notes[i-12:]) == uint32(len(name)) {
			return true
		}
	}
	return false
}

// IsLoader is true for the dynamic loader itself, which runs other programs and honours LD_PRELOAD
// although it has no loader of its own.
func (p Program) IsLoader() bool {
	base := filepath.Base(p.Path)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld.so") || strings.HasPrefix(base, "ld-2.")
}

// Libc names the C library a program or a shared library is built for.
func (p Program) Libc() string {
	if strings.HasPrefix(filepath.Base(p.Interpreter), "ld-musl") {
		return "musl"
	}
	for _, lib := range p.Needed {
		if strings.HasPrefix(lib, "libc.musl") || lib == "libc.so" {
			return "musl"
		}
	}
	return "glibc"
}

// Resolve finds name as a shell would: a name with a slash is a path, others are searched in path.
// The error wraps fs.ErrNotExist or fs.ErrPermission.
func Resolve(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		full := filepath.Join(dir, name)
		err := executable(full)
		if err == nil {
			return full, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", sayf(fs.ErrNotExist, "%s is in no folder of PATH; install it or give its full path", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sayf(fs.ErrNotExist, "%s does not exist; check the path", path)
	case err != nil:
		return fmt.Errorf("inspect %s: %w", path, err)
	case info.IsDir():
		return sayf(fs.ErrPermission, "%s is a folder; name a program", path)
	case unix.Access(path, unix.X_OK) != nil:
		return sayf(fs.ErrPermission, "%s is not executable; `chmod +x` it or name a program", path)
	}
	return nil
}
