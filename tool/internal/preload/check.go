package preload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Credentials are the ids of the caller; a program that changes them makes the loader ignore
// LD_PRELOAD (AT_SECURE).
type Credentials struct{ UID, EUID, GID, EGID int }

// CurrentCredentials are those of this process.
func CurrentCredentials() Credentials {
	return Credentials{UID: os.Getuid(), EUID: os.Geteuid(), GID: os.Getgid(), EGID: os.Getegid()}
}

// ErrUnreachable marks a program that an allocator cannot be preloaded into.
var ErrUnreachable = errors.New("unreachable")

// attempt is one program, one library and one caller put together.
type attempt struct {
	program, library Program
	caller           Credentials
}

// An obstacle is a reason why the loader would not put the library into the program.
type obstacle struct {
	applies func(attempt) bool
	reason  string
	advice  string
}

var obstacles = []obstacle{
	{
		func(a attempt) bool {
			return a.program.Machine != a.library.Machine || a.program.Class != a.library.Class
		},
		"is built for another architecture than the allocator's library",
		"give a library built for it with --lib",
	},
	{
		func(a attempt) bool { return a.program.Interpreter == "" && a.program.Granary },
		"is a static program that has Granary linked in",
		"start it as it is, without `granary run`",
	},
	{
		func(a attempt) bool { return a.program.Interpreter == "" && !a.program.IsLoader() },
		"is a static program, which no library can be preloaded into",
		"link it with libgranary.a or granary.o, or build it dynamically",
	},
	{
		func(a attempt) bool { return a.program.Libc() != a.library.Libc() },
		"uses another C library than the allocator's library",
		"give a library built for that C library with --lib (`make musl` builds one for musl)",
	},
	{
		func(a attempt) bool { return a.caller.UID != a.caller.EUID || a.caller.GID != a.caller.EGID },
		"would run with other rights than its caller's (AT_SECURE), so the loader ignores LD_PRELOAD",
		"start it from a process whose real and effective ids are the same",
	},
	{
		func(a attempt) bool { return a.program.SetUID && int(a.program.UID) != a.caller.UID },
		"is setuid, so the loader ignores LD_PRELOAD",
		"run it as its owner, or list the library in /etc/ld.so.preload",
	},
	{
		func(a attempt) bool { return a.program.SetGID && int(a.program.GID) != a.caller.GID },
		"is setgid, so the loader ignores LD_PRELOAD",
		"run it with its group as yours, or list the library in /etc/ld.so.preload",
	},
	{
		func(a attempt) bool { return a.program.HasCaps && a.caller.UID != 0 },
		"has file capabilities, so the loader ignores LD_PRELOAD",
		"grant them with `setpriv --ambient-caps` or systemd's AmbientCapabilities= instead",
	},
}

// Check returns an error that says why library cannot be preloaded into the program at path, or nil.
// For a script it checks the interpreter that the script names.
func Check(path, library string, caller Credentials, searchPath string) error {
	lib, err := Inspect(library)
	if err != nil {
		return fmt.Errorf("the allocator's library cannot be used, name another with --lib: %w", err)
	}
	program, via, err := target(path, searchPath)
	if err != nil {
		return err
	}
	a := attempt{program: program, library: lib, caller: caller}
	for _, o := range obstacles {
		if o.applies(a) {
			chain := strings.Join(append(via, program.Path), " runs ")
			return sayf(ErrUnreachable, "%s%s %s; %s", chain, relative(via), o.reason, o.advice)
		}
	}
	return nil
}

// relative turns "SCRIPT runs PROGRAM is static" into "SCRIPT runs PROGRAM, which is static".
func relative(via []string) string {
	if len(via) == 0 {
		return ""
	}
	return ", which"
}

// target follows #! lines to the ELF program that the kernel will start in the end.
func target(path, searchPath string) (program Program, via []string, err error) {
	for range 5 { // as many levels as the kernel follows
		program, err = Inspect(path)
		if err != nil || program.Script == nil {
			return program, via, err
		}
		via = append(via, path)
		if path, err = interpreter(program, searchPath); err != nil {
			return program, via, err
		}
	}
	return program, via, sayf(fs.ErrPermission, "%s is a script run by too long a chain of scripts; name a program", via[0])
}

// interpreter is the program that runs a script; `#!/usr/bin/env name` means name.
func interpreter(script Program, searchPath string) (string, error) {
	words := script.Script
	if len(words) == 0 {
		return "", sayf(fs.ErrPermission, "%s has an empty #! line; name its interpreter there", script.Path)
	}
	if filepath.Base(words[0]) == "env" {
		plain := func(w string) bool { return !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") }
		if i := slices.IndexFunc(words[1:], plain); i >= 0 {
			words = words[1+i:]
		}
	}
	path, err := Resolve(words[0], searchPath)
	if err != nil {
		return "", fmt.Errorf("the interpreter of %s: %w", script.Path, err)
	}
	return path, nil
}
