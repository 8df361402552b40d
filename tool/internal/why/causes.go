package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/term"
)

// A Cause is a large part of RSS in words.
type Cause struct {
	Key   string `json:"key"`
	Bytes uint64 `json:"bytes"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// A reason explains a step: its cause in this process, and a remedy.
type reason struct {
	what func(why) string
	do   func(why) string
}

// why is the input of the reasons.
type why struct {
	w       Waterfall
	h       *Heap
	regions []procfs.FootprintRegion
	bytes   uint64
}

func say(text string) func(why) string { return func(why) string { return text } }

var reasons = map[string]reason{
	"live": {liveWhat, say("if that is more than it should be, look for what the program keeps: `granary profile PID` shows who allocates it, `granary leaks PID` what grows")},
	"caches": {func(y why) string {
		n, _ := y.figure("caches")
		return fmt.Sprintf("%d caches hold free objects for the next malloc", n)
	}, say("`granary ctl PID flush` empties them; they fill again as the program allocates")},
	"depot":   {say("free objects wait between the caches, because one thread frees what another allocates"), say("`granary ctl PID flush` gives them back to their slabs")},
	"partial": {partialWhat, say("only freeing what is left there helps: `granary profile PID --pins` shows whose it is; allocate what lives long apart from what lives briefly, or restart; pages without live objects have gone back already")},
	"dirty": {say("memory that was freed a moment ago is kept in case the program wants it again"),
		say("wait dirty_decay_ms, or `granary ctl PID purge`; a shorter `granary ctl PID set dirty_decay_ms:MILLISECONDS` keeps less")},
	"huge": {say("huge pages hold more than the program uses"),
		say("wait: what stays unused goes back like other free memory, and `granary ctl PID purge` gives it back now; started with GRANARY_CONF=huge_pages:2 it does without huge pages")},
	"metadata": {say("descriptions of slabs and pages, in proportion to the largest heap so far"), say("nothing: it is reused, not given back")},
	"own": {func(y why) string {
		n, _ := y.figure("arenas")
		return fmt.Sprintf("%d heaps of the program's own hold objects", n)
	}, say("look for what the program keeps in them; destroying or resetting a heap frees all of it at once")},
	"own_free": {say("heaps of the program's own keep what was freed in them apart from each other"),
		say("`granary ctl PID purge` gives their free pages back; fewer heaps, or resetting them, keeps less")},
	"rounding": {say("requests are rounded up to size classes"), say("`granary size BYTES` shows what a size really takes; sizes just below a class waste nothing")},
	"stacks":   {stacksWhat, say("fewer threads, or smaller stacks: pthread_attr_setstacksize, `ulimit -s`, or the server's own option (MariaDB: thread_stack, thread_cache_size)")},
	"code":     {say("pages of programs and libraries, of which most are shared with other processes"), say("nothing, usually: PSS in `granary ps` counts them by share")},
	"data":     {say("static variables of the program and its libraries"), say("look for large static arrays: `nm --size-sort PROGRAM`")},
	"files":    {say("files that the program maps"), say("nothing: the kernel takes these pages back when it needs memory, unless they are locked or dirty")},
	"shared":   {say("shared memory: segments between processes, tmpfs, memfd"), say("look in the program's settings (PostgreSQL: shared_buffers); `ipcs -m` and /dev/shm list segments")},
	"break":    {say("the heap of the first thread, which ends at the highest object that lives"), say("under glibc malloc_trim(0) gives back what is free; run it under Granary to see what lives: `granary run`")},
	"arenas":   {arenasWhat, say("MALLOC_ARENA_MAX=2 bounds their number at the price of waiting; Granary has none: `granary run`")},
	"lazy":     {say("freed, but counted until the kernel needs memory (MADV_FREE)"), say("nothing is lost; jemalloc: muzzy_decay_ms:0 gives it back at once")},
	"anonymous": {func(y why) string {
		if y.h != nil {
			return "memory that the program, or another allocator in it, maps past malloc"
		}
		return "most of it is the heap of " + y.w.Allocator + ", whose inside is not to be seen"
	}, func(y why) string {
		if y.h != nil {
			return "look at its largest mappings in /proc/PID/smaps: a JIT, a buffer pool, a garbage collected heap"
		}
		return "run it under Granary to see what lives in it: `granary run`"
	}},
}

func (y why) figure(name string) (uint64, bool) {
	if y.h == nil {
		return 0, false
	}
	return y.h.Snapshot.Value(name)
}

// most is how many causes are printed.
const most = 3

// causes are the largest steps in words. Live counts as one, not as request and rounding.
func causes(w Waterfall, h *Heap, regions []procfs.FootprintRegion) []Cause {
	var out []Cause
	pid := strconv.Itoa(w.PID)
	for _, s := range w.Steps {
		r, ok := reasons[s.Key]
		if !ok || s.Bytes <= 0 || s.Sum && s.Key != "live" || s.Key == "rounding" {
			continue
		}
		bytes := uint64(s.Bytes)
		if s.Key == "live" {
			bytes = uint64(max(0, s.Bytes+w.Bytes("untouched")))
		}
		y := why{w, h, regions, bytes}
		c := Cause{Key: s.Key, Bytes: bytes, What: r.what(y), Do: strings.ReplaceAll(r.do(y), "PID", pid)}
		if w.PID == 0 {
			c.Do = "" // a process that has died cannot be helped
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out[:min(most, len(out))]
}

func liveWhat(y why) string {
	n, _ := y.figure("live_objects")
	text := fmt.Sprintf("the program holds %s objects", term.Count(n))
	classes := slices.Clone(y.h.Snapshot.Classes)
	slices.SortStableFunc(classes, func(a, b inspect.Class) int { return cmp.Compare(b.LiveBytes(), a.LiveBytes()) })
	var parts []string
	for _, c := range classes[:min(most, len(classes))] {
		if c.Live > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s bytes (%s)", term.Count(c.Live), term.Count(c.Size), term.Bytes(c.LiveBytes())))
		}
	}
	if large, _ := y.figure("large"); large > 0 {
		blocks, _ := y.figure("large_blocks")
		parts = append(parts, fmt.Sprintf("%s in blocks above 1 MiB (%s)", term.Count(blocks), term.Bytes(large)))
	}
	if len(parts) > 0 {
		text += ", most of them " + strings.Join(parts, ", ")
	}
	return text
}

func partialWhat(y why) string {
	classes := slices.DeleteFunc(slices.Clone(y.h.Snapshot.Classes), func(c inspect.Class) bool { return !c.Small || c.Slabs == 0 })
	slices.SortStableFunc(classes, func(a, b inspect.Class) int { return cmp.Compare(b.WasteBytes(), a.WasteBytes()) })
	text := "live objects keep pages that are mostly free"
	var parts []string
	for _, c := range classes[:min(most, len(classes))] {
		used := c.LiveBytes()
		parts = append(parts, fmt.Sprintf("%s bytes (%s, %s in use)", term.Count(c.Size), term.Bytes(c.Slabs*c.SlabBytes-c.CleanBytes),
			term.Percent(float64(used), float64(c.Slabs*c.SlabBytes-c.CleanBytes))))
	}
	if len(parts) > 0 {
		text += ", mainly of objects of " + strings.Join(parts, ", ")
	}
	return text
}

func stacksWhat(y why) string {
	n := 0
	for _, r := range y.regions {
		if r.Kind == procfs.Stacks {
			n++
		}
	}
	if n == 1 {
		return "the stack of its only thread"
	}
	return fmt.Sprintf("%d stacks of %s each on average", n, term.Bytes(y.bytes/uint64(max(1, n))))
}

func arenasWhat(y why) string {
	n := 0
	for i := range y.regions {
		if y.regions[i].Kind == procfs.Anonymous && isArena(y.regions, i) {
			n++
		}
	}
	return fmt.Sprintf("%d arenas of glibc, each with free memory of its own that the others do not use", n)
}
