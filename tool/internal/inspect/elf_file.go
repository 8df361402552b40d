package inspect

import (
	"bytes"
	"debug/elf"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// readLimit bounds the bytes that are searched for strings in one program.
const readLimit = 64 << 20

// An elfFile describes the allocator in an ELF file.
type elfFile struct {
	soname        string
	needed        []string
	static        bool
	goProgram     bool
	definesMalloc bool
	kind          string // the species, or ""
	version       string
}

// Files of many processes are the same; each is read once.
var elfFiles sync.Map

type identity struct {
	dev, inode uint64
	size, time int64
}

// readBinary reads the ELF file at path; name is its path for the process.
func readBinary(path, name string) (elfFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return elfFile{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return elfFile{}, err
	}
	key := identity{st.Dev, st.Ino, st.Size, st.Mtim.Nano()}
	if known, ok := elfFiles.Load(key); ok {
		return known.(elfFile), nil
	}
	file, err := elf.NewFile(f)
	if err != nil {
		return elfFile{}, err
	}
	b := facts(file, name)
	if b.kind == Granary {
		b.version = ownVersion(file, name)
	}
	elfFiles.Store(key, b)
	return b, nil
}

func facts(f *elf.File, name string) elfFile {
	var b elfFile
	// A file may lack these sections.
	b.needed, _ = f.ImportedLibraries()
	if sonames, err := f.DynString(elf.DT_SONAME); err == nil && len(sonames) > 0 {
		b.soname = sonames[0]
	}
	isProgram := f.Section(".interp") != nil || f.Type == elf.ET_EXEC || b.soname == ""
	b.static = isProgram && f.Section(".interp") == nil
	b.goProgram = f.Section(".go.buildinfo") != nil
	symbols := defined(f, isProgram)
	b.definesMalloc = symbols["malloc"]
	kind, ok := byLibrary(name)
	if !ok {
		kind, ok = bySymbols(symbols)
	}
	// A symbol table settles it; without one only what is written in the program can.
	if !ok && b.static && f.Section(".symtab") == nil && !b.goProgram {
		kind, ok = byText(f)
	}
	if ok {
		b.kind, b.version = kind.name, versionIn(f, kind, name)
	}
	return b
}

// FileVersion is the version of the allocator in a file; empty where the file is no library or does not say.
func FileVersion(path string) string {
	b, err := readBinary(path, path)
	if err != nil {
		return ""
	}
	return b.version
}

// ownVersion returns the version from the descriptor of Granary's library, or of a program that contains
// the library. It returns an empty string if this command cannot read the descriptor.
func ownVersion(f *elf.File, name string) string {
	library, err := ReadLibrary(f, name)
	if err != nil {
		return ""
	}
	return library.Version
}

// defined are the symbols the file defines; local ones of a program as well, as what is linked
// statically need not be exported.
func defined(f *elf.File, isProgram bool) map[string]bool {
	out := map[string]bool{}
	add := func(symbols []elf.Symbol, err error) {
		for _, s := range symbols {
			if err == nil && s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) != elf.STT_FILE {
				out[s.Name] = true
			}
		}
	}
	add(f.DynamicSymbols())
	if isProgram {
		add(f.Symbols())
	}
	return out
}

func rodata(f *elf.File) []byte {
	section := f.Section(".rodata")
	if section == nil || section.Size > readLimit {
		return nil
	}
	data, _ := section.Data() // an unreadable file is skipped
	return data
}

func byText(f *elf.File) (species, bool) {
	data := rodata(f)
	for _, s := range allSpecies {
		if s.text != "" && bytes.Contains(data, []byte(s.text)) {
			return s, true
		}
	}
	return species{}, false
}

func versionIn(f *elf.File, s species, name string) string {
	if s.version != nil {
		if m := s.version.FindSubmatch(rodata(f)); m != nil {
			return string(m[1])
		}
	}
	if m := fileVersion.FindStringSubmatch(strings.TrimSuffix(name, " (deleted)")); m != nil && s.name != "glibc" {
		return m[1]
	}
	return ""
}
