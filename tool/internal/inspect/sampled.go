package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds on a reading of the table of samples, so that damage cannot cause unbounded work.
const (
	maxStacks  = 1 << 20
	maxFrames  = 1 << 26
	maxSamples = 1 << 24
	maxDepth   = 1 << 10
)

var sampleConstants = []string{
	"profile.stacks_at", "profile.frames_at", "profile.samples_at", "profile.object_scale", "profile.lifetimes",
	"profile.head.bytes", "profile.stack.bytes", "profile.sample.bytes", "profile.amount.bytes",
}

// CanSample is false for a library that knows no sampling.
func (t *Target) CanSample() bool {
	for _, name := range sampleConstants {
		if _, ok := t.layout.constants[name]; !ok {
			return false
		}
	}
	_, ok := t.layout.cellNames["profile.table"]
	return ok
}

// Samples reads what sampling has gathered; where it was never on, Collected is false. The target is
// not stopped: rows that change while they are read are read again.
func (t *Target) Samples() (*Samples, error) {
	if !t.CanSample() {
		return nil, failure(ErrVersion, "the library in the process cannot sample allocations: run the program with the one that came with this command")
	}
	if t.Published {
		return nil, failure(ErrNoRights, "process %d publishes its figures but no samples: run the command as root, or with the capability CAP_SYS_PTRACE", t.PID)
	}
	for range readings {
		s, err := t.samplesOnce()
		if err == nil || !errors.Is(err, errDiscarded) {
			return s, err
		}
	}
	return nil, failure(ErrDamaged, "the table of samples was discarded while it was read, %d times: another command switches sampling on and off", readings)
}

// errDiscarded says that the table went away while it was read.
var errDiscarded = errors.New("the samples were discarded")

func (t *Target) samplesOnce() (*Samples, error) {
	table, err := t.figure("profile.table")
	if err != nil {
		return nil, t.explain(err)
	}
	if table == 0 {
		return &Samples{}, nil
	}
	r := &sampleReader{t: t, l: t.layout, table: table}
	s, err := r.read()
	if errors.Is(err, errUnmapped) {
		return nil, errDiscarded
	}
	return s, err
}

// A sampleReader reads one table.
type sampleReader struct {
	t     *Target
	l     *layout
	table uint64
	head  []byte
	frame []byte
}

func (r *sampleReader) constant(name string) uint64 { return r.l.constant("profile." + name) }

// of reads a field of a row.
func (r *sampleReader) of(row []byte, name string, width uint32) uint64 {
	v, _ := number(row, r.constant(name), width)
	return v
}

func (r *sampleReader) read() (*Samples, error) {
	for _, name := range sampleConstants {
		if v := r.l.constant(name); v == 0 || v > 1<<32 {
			return nil, failure(ErrDamaged, "the library's description of itself is damaged: %s is %d", name, v)
		}
	}
	var err error
	if r.head, err = r.rows(r.table, r.constant("head.bytes"), 1); err != nil {
		return nil, err
	}
	s := &Samples{Generation: r.of(r.head, "head.generation", 8), Rate: r.of(r.head, "head.rate", 8), Taken: r.of(r.head, "head.taken", 8)}
	if s.Generation == 0 {
		return &Samples{}, nil
	}
	s.Active, s.Collected = r.of(r.head, "head.active", 8) != 0, true
	s.Lost = Lost{r.of(r.head, "head.lost_stacks", 8), r.of(r.head, "head.lost_samples", 8), r.of(r.head, "head.lost_reentered", 8), r.of(r.head, "head.lost_late", 8)}
	started := r.of(r.head, "head.started_nanos", 8)
	if _, ok := r.l.constants["profile.head.ends_cut"]; ok { // older libraries do not tell
		s.Ends = Ends{r.of(r.head, "head.ends_cut", 8), r.of(r.head, "head.ends_early", 8), r.of(r.head, "head.ends_guessed", 8)}
	}
	if err := r.stacks(s, started); err != nil {
		return nil, err
	}
	if err := r.samples(s, started); err != nil {
		return nil, err
	}
	r.before(s)
	r.sizes(s)
	r.threads(s)
	s.For = r.duration(s, started)
	again, err := r.rows(r.table, r.constant("head.bytes"), 1)
	if err != nil {
		return nil, err
	}
	if r.of(again, "head.generation", 8) != s.Generation {
		return nil, errDiscarded
	}
	return s, nil
}

// duration is how long the samples were gathered: of a process until now, of a core file until the
// last sample.
func (r *sampleReader) duration(s *Samples, started uint64) time.Duration {
	if _, live := r.t.memory.(process); live {
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
			return max(0, time.Duration(now.Nano())-time.Duration(started))
		}
	}
	var last time.Duration
	for _, stack := range s.Stacks {
		last = max(last, stack.Last)
	}
	return last
}

// rows reads an array.
func (r *sampleReader) rows(at, size, count uint64) ([]byte, error) {
	if count == 0 {
		return nil, nil
	}
	return readAt(r.t.memory, at, int(size*count))
}

// settled reads an array whose rows have a sequence number, until each row reads alike twice with an
// even one. Rows that never do are as they were last.
func (r *sampleReader) settled(at, size, count, sequence uint64) ([]byte, error) {
	all, err := r.rows(at, size, count)
	if err != nil || count == 0 {
		return nil, err
	}
	if _, live := r.t.memory.(process); !live {
		return all, nil
	}
	again, err := r.rows(at, size, count)
	if err != nil {
		return nil, err
	}
	for range readings {
		var spans []span
		for i := range count {
			a, b := all[i*size:(i+1)*size], again[i*size:(i+1)*size]
			if bytes.Equal(a, b) && binary.LittleEndian.Uint32(a[sequence:])%2 == 0 {
				continue
			}
			copy(a, b)
			spans = append(spans, span{at + i*size, b})
		}
		if len(spans) == 0 {
			return all, nil
		}
		if err := r.t.memory.read(spans); err != nil {
			return nil, err
		}
	}
	return again, nil
}

func (r *sampleReader) stacks(s *Samples, started uint64) error {
	count, frames := r.of(r.head, "head.stacks", 4), r.of(r.head, "head.frames", 4)
	size := r.constant("stack.bytes")
	if count > maxStacks || frames > maxFrames || r.constant("stack.sequence")+4 > size {
		return failure(ErrDamaged, "the table of samples says it has %d stacks of %d frames: it was overwritten", count, frames)
	}
	rows, err := r.settled(r.table+r.constant("stacks_at"), size, count, r.constant("stack.sequence"))
	if err != nil {
		return err
	}
	// The library only adds frames, and adds them before the stack that uses them: every frame that a
	// stack read now can name is below the number of frames read now.
	head, err := r.rows(r.table, r.constant("head.bytes"), 1)
	if err != nil {
		return err
	}
	frames = min(r.of(head, "head.frames", 4), maxFrames)
	if r.frame, err = r.rows(r.table+r.constant("frames_at"), 8, frames); err != nil {
		return err
	}
	for i := range count {
		s.Stacks = append(s.Stacks, r.stack(rows[i*size:(i+1)*size], started))
	}
	return nil
}

func (r *sampleReader) stack(row []byte, started uint64) Stack {
	stack := Stack{
		Allocated: r.amount(row, "stack.allocated"), Freed: r.amount(row, "stack.freed"), Temporary: r.amount(row, "stack.temporary"),
		PeakBytes: float64(r.of(row, "stack.peak_bytes", 8)),
		PeakAt:    since(started, r.of(row, "stack.peak_nanos", 8)),
		First:     since(started, r.of(row, "stack.first_nanos", 8)),
		Last:      since(started, r.of(row, "stack.last_nanos", 8)),
	}
	first, depth := r.of(row, "stack.first_frame", 4), r.of(row, "stack.depth", 4)
	if depth <= maxDepth && (first+depth)*8 <= uint64(len(r.frame)) {
		for i := range depth {
			stack.Frames = append(stack.Frames, binary.LittleEndian.Uint64(r.frame[8*(first+i):]))
		}
	}
	for i := range min(r.constant("lifetimes"), 64) {
		v, _ := number(row, r.constant("stack.lifetime_objects")+8*i, 8)
		stack.Lifetimes = append(stack.Lifetimes, float64(v)/float64(r.constant("object_scale")))
	}
	return stack
}

func (r *sampleReader) amount(row []byte, name string) Amount {
	at := r.constant(name)
	field := func(name string) uint64 {
		v, _ := number(row, at+r.constant("amount."+name), 8)
		return v
	}
	return Amount{field("samples"), float64(field("objects")) / float64(r.constant("object_scale")), float64(field("sizes"))}
}

func since(started, then uint64) time.Duration { return time.Duration(then - min(then, started)) }

func (r *sampleReader) samples(s *Samples, started uint64) error {
	count, size := r.of(r.head, "head.samples", 4), r.constant("sample.bytes")
	if count > maxSamples || r.constant("sample.sequence")+4 > size {
		return failure(ErrDamaged, "the table of samples says it has %d rows: it was overwritten", count)
	}
	rows, err := r.settled(r.table+r.constant("samples_at"), size, count, r.constant("sample.sequence"))
	if err != nil {
		return err
	}
	for i := range count {
		row := rows[i*size : (i+1)*size]
		sample := Sample{
			Address: r.of(row, "sample.address", 8), Stack: int(r.of(row, "sample.stack", 4)), Class: int(r.of(row, "sample.class", 2)),
			Bytes: r.of(row, "sample.size", 8), Requested: r.of(row, "sample.requested", 8),
			Objects: float64(r.of(row, "sample.objects", 8)) / float64(r.constant("object_scale")),
			At:      since(started, r.of(row, "sample.nanos", 8)), Thread: int(r.of(row, "sample.thread", 4)),
		}
		if sample.Address != 0 && sample.Stack < len(s.Stacks) {
			s.Live = append(s.Live, sample)
		}
	}
	return nil
}

// before reads the objects that were live when sampling was switched on.
func (r *sampleReader) before(s *Samples) {
	at := r.constant("head.live_before")
	for class := range r.l.classes {
		objects, _ := number(r.head, at+8*uint64(class), 8)
		if objects == 0 {
			continue
		}
		b := Before{Class: class, Size: r.l.classes[class].size, Objects: objects, Bytes: objects * r.l.classes[class].size}
		if class == 0 {
			b.Size, b.Bytes = 0, r.of(r.head, "head.large_live_bytes", 8)
		}
		s.Before = append(s.Before, b)
	}
}

func (r *sampleReader) sizes(s *Samples) {
	if _, ok := r.l.constants["profile.head.sizes"]; !ok { // an older library
		return
	}
	for i := range min(r.constant("size_rows"), 64) {
		v, _ := number(r.head, r.constant("head.sizes")+8*i, 8)
		s.Sizes = append(s.Sizes, float64(v)/float64(r.constant("object_scale")))
	}
}

func (r *sampleReader) threads(s *Samples) {
	const mostThreads = 1 << 16
	size, at := r.constant("thread.bytes"), r.constant("head.threads")
	for i := range min(r.constant("thread_rows"), mostThreads) {
		if at+(i+1)*size > uint64(len(r.head)) {
			return
		}
		row := r.head[at+i*size : at+(i+1)*size]
		t := Thread{ID: int(r.of(row, "thread.id", 4)), Allocated: r.amount(row, "thread.allocated"), Freed: r.amount(row, "thread.freed")}
		if t.Allocated.Samples+t.Freed.Samples > 0 {
			s.Threads = append(s.Threads, t)
		}
	}
}
