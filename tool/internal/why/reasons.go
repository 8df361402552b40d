package why

import "fmt"

// A reason explains a step of the waterfall.
type reason struct {
	lead text // the kind of memory, for the summary
	act  text // the shortest remedy, for the summary
	what text // the cause in this process
	do   text // every remedy
}

// A text may depend on the process. PID in it is replaced by the process id.
type text func(why) string

func say(words string) text { return func(why) string { return words } }

const (
	purgeNow  = "`granary ctl PID purge` purges it now"
	flushNow  = "`granary ctl PID flush` empties the caches"
	noAction  = "no action is needed"
	underRun  = "run the program under Granary to measure its live bytes: `granary run`"
	sharedOut = "no action is needed: PSS in `granary ps` divides these pages among the processes that share them"
)

// reasons has a row for each step that can be a cause.
var reasons = map[string]reason{
	"live": {
		liveLead,
		say("`granary profile PID` shows the code that allocated it, `granary leaks PID` the code whose memory grows"),
		liveWhat,
		say("if that is more than expected, find the code: `granary profile PID` shows which code allocated it, `granary leaks PID` which stacks grow")},
	"caches": {
		say("free objects in the CPU caches"), say(flushNow), cachesWhat,
		say("`granary ctl PID flush` empties them; they fill again as the program allocates")},
	"depot": {
		say("free objects between the CPU caches"), say(flushNow),
		say("free objects are in transit between the CPU caches, because one thread frees objects of another"),
		say("`granary ctl PID flush` returns them to their slabs")},
	"partial": {
		say("free objects on pages that live objects pin"),
		say("`granary profile PID --pins` shows the code that allocated these live objects"),
		partialWhat,
		say("only freeing these live objects helps: `granary profile PID --pins` shows the code that allocated them; allocate objects with a long life apart from short-lived ones, or restart; pages without live objects are purged already")},
	"dirty": {
		say("free memory that is not purged yet"), say(purgeNow),
		say("pages that were freed a moment ago stay resident for the decay time, in case the program allocates again"),
		say("wait for the decay time, or `granary ctl PID purge`; `granary ctl PID set dirty_decay_ms:MILLISECONDS` sets a shorter decay time")},
	"huge": {
		say("the unused part of huge pages"), say(purgeNow),
		say("the kernel fills a huge page of 2 MiB as a whole, and the program uses a part of it"),
		say("wait: unused pages are purged after the decay time; `granary ctl PID purge` purges them now; GRANARY_CONF=huge_pages:never at the start avoids huge pages")},
	"metadata": {
		say("Granary's own structures"), say("no action is needed: they are in proportion to the largest heap so far, and are used again"),
		say("descriptions of slabs and pages, in proportion to the largest heap so far"),
		say("no action is needed: they are used again, but never purged")},
	"own": {
		say("live in heaps that the program created"), say("destroying or resetting such a heap frees all of it in one call"),
		func(y why) string {
			return fmt.Sprintf("%d heaps that the program created hold objects", y.figure("arenas"))
		},
		say("check which objects the program keeps in them; destroying or resetting a heap frees all of it in one call")},
	"own_free": {
		say("free memory in heaps that the program created"), say(purgeNow),
		say("heaps that the program created do not share their free memory"),
		say("`granary ctl PID purge` purges their free pages; fewer heaps, or resetting them, leaves less free memory")},
	"stacks": {
		say("stacks of threads"), say("use fewer threads or smaller stacks"), stacksWhat,
		say("use fewer threads or smaller stacks: pthread_attr_setstacksize, `ulimit -s`, or the server's own option (MariaDB: thread_stack, thread_cache_size)")},
	"code": {
		say("code of the program and its libraries"), say(sharedOut),
		say("pages of programs and libraries, most of them shared with other processes"), say(sharedOut)},
	"data": {
		say("static variables of the program and its libraries"), say("`nm --size-sort PROGRAM` lists the largest"),
		say("static variables of the program and its libraries"),
		say("`nm --size-sort PROGRAM` lists the largest static arrays")},
	"files": {
		say("files that the program maps"), say("no action is needed: the kernel drops these pages when it needs memory"),
		say("files that the program maps"),
		say("no action is needed: the kernel drops these pages when it needs memory, unless they are locked or written to")},
	"shared": {
		say("shared memory"), say("`ipcs -m` and /dev/shm list the segments"),
		say("memory that processes share: segments, tmpfs, memfd"),
		say("check the program's settings (PostgreSQL: shared_buffers); `ipcs -m` and /dev/shm list the segments")},
	"break": {
		say("the program break, a heap that shrinks only at its end"), say(underRun),
		say("a heap from sbrk: it ends at the highest live object"), breakAct},
	"arenas": {
		say("arenas of glibc, each with free memory of its own"), say("MALLOC_ARENA_MAX=2 bounds their number"), arenasWhat,
		say("MALLOC_ARENA_MAX=2 bounds their number, and threads wait for each other more; Granary has no arenas for threads: `granary run`")},
	"lazy": {
		say("freed memory that the kernel may take when it needs it (MADV_FREE)"), say(noAction),
		say("freed, but resident until the kernel needs memory (MADV_FREE)"),
		say("no action is needed; jemalloc: muzzy_decay_ms:0 purges it sooner")},
	"anonymous": {anonymousLead, anonymousAct, anonymousWhat, anonymousAct},
}

func cachesWhat(y why) string {
	return fmt.Sprintf("%d CPU caches hold free objects for the next malloc", y.figure("caches"))
}

func breakAct(y why) string {
	if y.w.Allocator == "glibc" {
		return "malloc_trim(0) purges its free pages; " + underRun
	}
	return underRun
}

func anonymousLead(y why) string {
	if y.h != nil {
		return "mapped by the program itself, not through malloc"
	}
	return "the heap of " + y.w.Allocator + ", and memory that the program maps itself"
}

func anonymousWhat(y why) string {
	if y.h != nil {
		return "memory that the program, or another allocator in it, maps without malloc"
	}
	return "most of it is the heap of " + y.w.Allocator + ", which cannot be read from outside"
}

func anonymousAct(y why) string {
	if y.h != nil {
		return "check its largest mappings in /proc/PID/smaps: a JIT, a buffer pool, a garbage collected heap"
	}
	return underRun
}

// figure is a counter of the heap, 0 where there is none.
func (y why) figure(name string) uint64 {
	if y.h == nil {
		return 0
	}
	v, _ := y.h.Snapshot.Value(name)
	return v
}

// whole is what the shares are of: a core file does not tell what was resident.
func (w Waterfall) whole() string {
	if w.PID == 0 {
		return "the heap"
	}
	return "RSS"
}
