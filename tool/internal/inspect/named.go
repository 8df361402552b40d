package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// ProcessUsage is the message of commands when the argument that names a process is missing.
const ProcessUsage = "the PID or the name of a process"

// listed is how many processes of one name an error lists.
const listed = 10

// FindProcess is the process that arg names: by its number, or by the name of its program where only one process has it.
func FindProcess(proc procfs.FS, arg string) (int, error) {
	if isNumber(arg) {
		return cli.PID(arg)
	}
	pids := ProcessesNamed(proc, arg)
	switch len(pids) {
	case 0:
		return 0, cli.Usagef("there is no process called %q: give a name or a number that `granary ps` shows", arg)
	case 1:
		return pids[0], nil
	}
	text := fmt.Sprintf("%d processes are called %q: give the number of one", len(pids), arg)
	for _, pid := range pids[:min(listed, len(pids))] {
		words, _ := proc.Cmdline(pid) // it may have ended
		text += fmt.Sprintf("\n  %7d  %.60s", pid, strings.Join(words, " "))
	}
	if more := len(pids) - listed; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return 0, cli.Usagef("%s", text)
}

// FindProcesses are the processes that arg names: all that have the name.
func FindProcesses(proc procfs.FS, arg string) ([]int, error) {
	if pids := ProcessesNamed(proc, arg); len(pids) > 0 && !isNumber(arg) {
		return pids, nil
	}
	pid, err := FindProcess(proc, arg)
	return []int{pid}, err
}

// ProcessesNamed are the processes whose program or command has that name, ascending, without this one.
func ProcessesNamed(proc procfs.FS, name string) (out []int) {
	all, _ := proc.PIDs() // without them there is none
	for _, pid := range all {
		if pid != os.Getpid() && proc.Alive(pid) && isCalled(proc, pid, name) {
			out = append(out, pid)
		}
	}
	return out
}

func isCalled(proc procfs.FS, pid int, name string) bool {
	words, err := proc.Cmdline(pid)
	if err != nil || len(words) == 0 { // a thread of the kernel
		return false
	}
	command, err := proc.Comm(pid)
	if err == nil && command == name {
		return true
	}
	program, err := os.Readlink(proc.Path(pid, "exe"))
	return err == nil && filepath.Base(strings.TrimSuffix(program, " (deleted)")) == name || filepath.Base(words[0]) == name
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
