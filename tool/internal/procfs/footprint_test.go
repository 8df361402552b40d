package procfs

import (
	"os"
	"testing"
)

func footprintRegion(start, end uint64, perms, path string) Region {
	return Region{Mapping: Mapping{Start: start, End: end, Perms: perms, Path: path}, RSS: end - start}
}

func TestKindsOfMappings(t *testing.T) {
	regions := []Region{
		footprintRegion(0x1000, 0x2000, "r--p", "/usr/bin/app"),
		footprintRegion(0x2000, 0x3000, "r-xp", "/usr/bin/app"),
		footprintRegion(0x3000, 0x4000, "rw-p", "/usr/bin/app"),
		footprintRegion(0x4000, 0x5000, "rw-p", ""),
		footprintRegion(0x8000, 0x9000, "rw-p", "[heap]"),
		footprintRegion(0x10000, 0x11000, "---p", ""),
		footprintRegion(0x11000, 0x19000, "rw-p", ""),
		footprintRegion(0x19000, 0x20000, "rw-p", ""),
		footprintRegion(0x20000, 0x4020000, "---p", ""),
		footprintRegion(0x4020000, 0x4030000, "rw-p", ""),
		footprintRegion(0x5000000, 0x5001000, "r--p", "/var/lib/table.db"),
		footprintRegion(0x6000000, 0x6001000, "rw-s", "/memfd:x (deleted)"),
		footprintRegion(0x6800000, 0x6801000, "r--s", "/usr/lib/gconv/gconv-modules.cache"),
		footprintRegion(0x7000000, 0x7001000, "rw-p", "[stack]"),
		footprintRegion(0x8000000, 0x8001000, "r-xp", "[vdso]"),
	}
	want := []MemoryKind{Code, Code, Data, Data, Heap, Anonymous, Stacks, Anonymous, Anonymous, Anonymous, Files, Shared, Files, Stacks, Kernel}
	for i, r := range Classify(regions) {
		if r.Kind != want[i] {
			t.Errorf("region %d (%s %s) is %v, want %v", i, r.Perms, r.Path, r.Kind, want[i])
		}
	}
}

func TestThisProcess(t *testing.T) {
	regions, err := Footprint(Live(), os.Getpid())
	if err != nil || SumByKind(regions)[Code] == 0 || SumByKind(regions)[Stacks] == 0 {
		t.Errorf("%v: %v", SumByKind(regions), err)
	}
}
