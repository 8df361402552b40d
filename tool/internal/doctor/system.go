package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var systemChecks = []check[struct{}]{
	{"overcommit", overcommit},
	{"max_map_count", mapCount},
	{"huge pages", hugePages},
	{"khugepaged", khugepaged},
	{"ptrace_scope", ptraceScope},
	{"ld.so.preload", systemPreload},
}

func overcommit(w World, _ struct{}) []Finding {
	if w.Proc.Sysctl("vm/overcommit_memory") != "2" {
		return nil
	}
	return one(Warning, "vm.overcommit_memory is 2: the kernel counts address space that an allocator reserves as used memory, so malloc fails before memory runs out",
		"set vm.overcommit_memory to 0 (`sysctl vm.overcommit_memory=0`), or raise vm.overcommit_ratio")
}

// wantedMaps is the kernel's own default.
const wantedMaps = 65530

func mapCount(w World, _ struct{}) []Finding {
	n, err := strconv.Atoi(w.Proc.Sysctl("vm/max_map_count"))
	if err != nil || n >= wantedMaps {
		return nil
	}
	return one(Warning, fmt.Sprintf("vm.max_map_count is %d, less than the kernel's default: programs with many threads or large heaps reach it, and mmap then fails", n),
		fmt.Sprintf("`sysctl vm.max_map_count=%d`, and that line in /etc/sysctl.d", wantedMaps))
}

func hugePages(w World, _ struct{}) []Finding {
	switch chosen(w.sysValue("kernel/mm/transparent_hugepage/enabled")) {
	case "always":
		return one(Note, "transparent huge pages are always on: stacks and sparse heaps of other allocators occupy 2 MiB where they use 4 KiB; Granary sets huge pages for its own heap",
			"`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` if RSS matters more than the speed of programs that do not request huge pages")
	case "never":
		return one(Note, "transparent huge pages are off, so large heaps cause more page faults and TLB misses",
			"`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` lets Granary use them where the heap is large and dense")
	}
	return nil
}

func khugepaged(w World, _ struct{}) []Finding {
	none, err := strconv.Atoi(w.sysValue("kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"))
	if err != nil || none < 256 || chosen(w.sysValue("kernel/mm/transparent_hugepage/enabled")) != "always" {
		return nil
	}
	return one(Warning, fmt.Sprintf("khugepaged may fill a huge page of which only %d of 512 pages are used, so RSS of idle processes grows", 512-none),
		"`echo 64 > /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none`")
}

func ptraceScope(w World, _ struct{}) []Finding {
	scope := w.Proc.Sysctl("kernel/yama/ptrace_scope")
	if scope == "" || scope == "0" || w.UID == 0 && scope != "3" {
		return nil
	}
	if scope == "3" {
		return one(Problem, "kernel.yama.ptrace_scope is 3: no process may read the memory of another until the next boot, so `granary stats`, `why`, `top`, `heap` and `ctl` cannot work",
			"set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and reboot")
	}
	return one(Warning, "kernel.yama.ptrace_scope is "+scope+": without root you may read only your own children, so `granary stats`, `why`, `top`, `heap` and `ctl` refuse your other processes",
		"run them as root, grant the command the right with `setcap cap_sys_ptrace+ep`, or `sysctl kernel.yama.ptrace_scope=0`")
}

func systemPreload(w World, _ struct{}) []Finding {
	data, err := os.ReadFile(filepath.Join(w.Etc, "ld.so.preload"))
	if err != nil {
		return nil
	}
	var out []Finding
	for _, path := range strings.Fields(string(data)) {
		if _, err := os.Stat(path); err != nil && strings.HasPrefix(path, "/") {
			out = append(out, Finding{Severity: Problem, What: "/etc/ld.so.preload names " + path + ", which cannot be read, so every program starts without it and prints an error",
				Remedy: "correct or remove that line"})
		}
	}
	return out
}
