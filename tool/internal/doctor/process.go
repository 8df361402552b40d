package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// process is the data about a running process.
type process struct {
	pid     int
	running inspect.Running
	maps    []procfs.Mapping
	environ []string
	status  map[string]string
}

var processChecks = []check[process]{
	{"preload", notEffective},
	{"static program", staticProgram},
	{"two allocators", several},
	{"deleted library", deleted},
	{"reading", reading},
	{"options", processOptions},
	{"mappings", mappings},
	{"address space limit", addressSpace},
	{"cgroup", cgroup},
	{"huge pages of the process", hugePagesOff},
	{"swap", swapped},
	{"restartable sequences", rseqOff},
}

// Process checks a running process, and the system's settings.
func Process(w World, pid int) (Report, error) {
	running, err := inspect.AllocatorOf(w.Proc, pid)
	if err != nil {
		return Report{}, w.Proc.Explain(pid, err)
	}
	p := process{pid: pid, running: running}
	if running.Name == inspect.Granary { // its own library has the list of its options
		if options := OptionsOf(filepath.Join(w.Proc.Path(pid, "root"), running.Path)); options != nil {
			w.Options = options
		}
	}
	if p.maps, err = w.Proc.Maps(pid); err != nil {
		return Report{}, w.Proc.Explain(pid, err)
	}
	if p.status, err = w.Proc.Status(pid); err != nil {
		return Report{}, w.Proc.Explain(pid, err)
	}
	if p.environ, err = w.Proc.Environ(pid); err != nil {
		return Report{}, w.Proc.Explain(pid, err)
	}
	r := Report{Subject: fmt.Sprintf("process %d (%s, %s)", pid, p.status["Name"], running.Describe()), Findings: []Finding{}}
	run(w, &r, processChecks, p)
	run(w, &r, systemChecks, struct{}{})
	r.sort()
	return r, nil
}

func (p process) wantsGranary() string {
	for _, name := range strings.FieldsFunc(variable(p.environ, "LD_PRELOAD"), isSeparator) {
		if strings.HasPrefix(filepath.Base(name), "libgranary") {
			return name
		}
	}
	return ""
}

func isSeparator(r rune) bool { return r == ':' || r == ' ' }

// notEffective finds out why a preloaded Granary is not the allocator that is called.
func notEffective(w World, p process) []Finding {
	name := p.wantsGranary()
	if name == "" || p.running.Name == inspect.Granary {
		return nil
	}
	for _, other := range p.running.Others {
		if other.Name == inspect.Granary {
			return one(Problem, fmt.Sprintf("LD_PRELOAD put Granary into the process, but its malloc is not called: %s comes first, from %s", p.running.Name, p.running.Path),
				"name libgranary.so first in LD_PRELOAD; if the program defines malloc itself, build it without its own allocator (Redis: MALLOC=libc)")
		}
	}
	return one(Problem, fmt.Sprintf("LD_PRELOAD names %s, but the library is not in the process: %s", name, whyNotLoaded(w, p, name)),
		"start it with `granary run`, which refuses to start a program that it cannot preload, and says why")
}

// staticProgram reports that preloading will not work, before the user tries it.
func staticProgram(_ World, p process) []Finding {
	if p.running.How != inspect.Static || p.running.Name == inspect.Granary || p.running.Name == "Go" || p.wantsGranary() != "" {
		return nil
	}
	return one(Note, fmt.Sprintf("the program is static and contains its allocator, %s: no library can be preloaded into it", p.running.Name),
		"to run it under Granary, link it with libgranary.a or granary.o, or build it dynamically")
}

func whyNotLoaded(w World, p process, library string) string {
	seen := filepath.Join(w.Proc.Path(p.pid, "root"), library)
	if _, err := os.Stat(seen); err != nil && strings.Contains(library, "/") {
		return "the file does not exist in the process's file system"
	}
	caller := preload.Credentials{UID: w.UID, EUID: w.UID, GID: os.Getgid(), EGID: os.Getegid()}
	exe := w.Proc.Path(p.pid, "exe")
	if err := preload.Check(exe, seen, caller, ""); err != nil {
		if path, linkErr := os.Readlink(exe); linkErr == nil {
			return strings.ReplaceAll(err.Error(), exe, path)
		}
		return err.Error()
	}
	return "the process ignored it (it started with other rights than its caller's), or set the variable after its start"
}

func several(_ World, p process) []Finding {
	if len(p.running.Others) == 0 {
		return nil
	}
	var names []string
	for _, o := range p.running.Others {
		names = append(names, o.Name+" ("+o.Path+")")
	}
	f := Finding{Severity: Note, What: fmt.Sprintf("further allocators are loaded but their malloc is not called: %s; %s serves the program", strings.Join(names, ", "), p.running.Name),
		Remedy: "nothing if the program is linked to them; a program that calls functions of theirs (mallctl, MallocExtension) reads the statistics of an empty heap"}
	if p.running.Name != inspect.Granary {
		f.Severity, f.Remedy = Warning, "load one allocator: remove the others from LD_PRELOAD, or name the one to use first"
	}
	return []Finding{f}
}

func deleted(_ World, p process) []Finding {
	if !strings.HasSuffix(p.running.Path, " (deleted)") {
		return nil
	}
	return one(Warning, fmt.Sprintf("the library %s was replaced or removed after the start of the process", strings.TrimSuffix(p.running.Path, " (deleted)")),
		"restart the process to run the installed version")
}

// reading checks whether the other commands can read the process.
func reading(_ World, p process) []Finding {
	if p.running.Name != inspect.Granary {
		return nil
	}
	target, err := inspect.Open(p.pid)
	switch {
	case err == nil:
		defer target.Close()
		if _, err = target.Snapshot(); err == nil || errors.Is(err, inspect.ErrNotReady) {
			return nil
		}
	case errors.Is(err, inspect.ErrNoRights):
		return one(Warning, "`granary stats`, `why`, `top`, `heap` and `ctl` cannot work on it: "+err.Error(), "get one of these rights")
	}
	return one(Problem, "its heap cannot be read: "+err.Error(), "if the library has another version, use the command of that version; if the heap was overwritten, `granary heap` names the damage")
}

func mappings(w World, p process) []Finding {
	limit, err := strconv.Atoi(w.Proc.Sysctl("vm/max_map_count"))
	if err != nil || len(p.maps)*10 < limit*8 {
		return nil
	}
	return one(Problem, fmt.Sprintf("the process has %d mappings of the %d that vm.max_map_count allows: mmap will fail, and parts of mappings can no longer be unmapped", len(p.maps), limit),
		fmt.Sprintf("`sysctl vm.max_map_count=%d`; the usual cause is many thread stacks or many small mapped files", 4*limit))
}

func addressSpace(w World, p process) []Finding {
	limits, err := w.Proc.Limits(p.pid)
	soft := limits["Max address space"].Soft
	if err != nil || limits["Max address space"] == (procfs.Limit{}) || soft == procfs.Unlimited {
		return nil
	}
	return one(Warning, fmt.Sprintf("the address space of the process is limited to %s (ulimit -v), which includes address space that is only reserved", term.Bytes(soft)),
		"remove the limit and bound memory with a cgroup instead (systemd: MemoryMax=)")
}

func cgroup(w World, p process) []Finding {
	g, err := w.Proc.Cgroup(p.pid)
	limit := min(g.Max, g.High)
	if errors.Is(err, procfs.ErrNoCgroup) || err != nil || limit == procfs.Unlimited || g.Current < limit/10*9 {
		return nil
	}
	what := fmt.Sprintf("the memory control group %s uses %s of %s", g.Path, term.Bytes(g.Current), term.Bytes(limit))
	remedy := fmt.Sprintf("`granary why %d` explains the memory; or raise the limit", p.pid)
	if p.running.Name == inspect.Granary {
		remedy = fmt.Sprintf("`granary ctl %d purge` purges free memory now; `granary why %d` explains the rest; or raise the limit", p.pid, p.pid)
	}
	if g.High < g.Max && g.Current >= g.High {
		return one(Problem, what+" (memory.high), so the kernel slows it down", remedy)
	}
	return one(Warning, what+"; beyond it the kernel kills a process in it", remedy)
}

func hugePagesOff(_ World, p process) []Finding {
	if p.status["THP_enabled"] != "0" {
		return nil
	}
	return one(Note, "the process has switched off transparent huge pages (PR_SET_THP_DISABLE)",
		"nothing, unless its heap is large: Redis has the option disable-thp")
}

func swapped(_ World, p process) []Finding {
	kb, _ := strconv.ParseUint(strings.TrimSuffix(p.status["VmSwap"], " kB"), 10, 64) // absent without swap
	if kb < 1024 {
		return nil
	}
	return one(Warning, fmt.Sprintf("%s of the process are in swap, which RSS does not include", term.Bytes(kb<<10)),
		"add memory to the machine or the cgroup, or lower vm.swappiness")
}

func rseqOff(_ World, p process) []Finding {
	conf := strings.ReplaceAll(variable(p.environ, "GRANARY_CONF"), "=", ":")
	if p.running.Name != inspect.Granary || !strings.Contains(conf, "rseq:false") {
		return nil
	}
	return one(Warning, "GRANARY_CONF switches restartable sequences off, so each thread keeps free memory of its own, and those beyond 1,280 share eight caches behind locks",
		"remove rseq:false from GRANARY_CONF, unless the program registers restartable sequences itself")
}

func processOptions(w World, p process) []Finding { return ofOthers(w, p.running.Name, p.environ) }
