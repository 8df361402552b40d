package inspect

import "time"

// Samples are the allocations that the process picked while its sampling was on: each byte with the
// same probability, so that sums over them estimate all allocations without bias.
type Samples struct {
	Active     bool   // samples are being taken
	Collected  bool   // there is something: sampling is on, or was and was not discarded
	Generation uint64 // changes when what was collected is discarded
	Rate       uint64 // mean bytes between two samples
	Taken      uint64 // samples so far
	For        time.Duration
	Lost       Lost
	Ends       Ends
	Stacks     []Stack
	Live       []Sample
	Before     []Before // what lived when sampling was switched on
	// Sizes counts allocations by the requested size: row i holds those of at most 2^i bytes, but of more
	// than 2^(i-1), the last row all larger ones. Sizes and Threads include samples whose stack or whose
	// object had no room; older libraries have neither.
	Sizes   []float64
	Threads []Thread
}

// A Thread is what one thread allocated and freed. ID 0 is the sum of threads without a row of their own.
type Thread struct {
	ID               int
	Allocated, Freed Amount
}

// Lost counts samples that could not be kept.
type Lost struct {
	Stacks    uint64 // there was no room for their stack
	Samples   uint64 // there was no room for them while they lived
	Reentered uint64 // a signal handler allocated while its thread recorded another
	Late      uint64 // a cache had no countdown yet
}

// Ends counts samples whose stack is not known to be whole.
type Ends struct {
	Cut     uint64 // at the maximum depth
	Early   uint64 // at code or a frame without a known caller
	Guessed uint64 // whole or not, some frames were found by frame pointers alone
}

// Total is the number of all lost samples.
func (l Lost) Total() uint64 { return l.Stacks + l.Samples + l.Reentered + l.Late }

// A Stack is one call stack that allocated: return addresses, the innermost first. Times are since sampling was
// switched on.
type Stack struct {
	Frames      []uint64
	Allocated   Amount
	Freed       Amount
	Temporary   Amount        // freed soon after, by the thread that allocated them
	PeakBytes   float64       // the most that was in use at a time
	PeakAt      time.Duration // and when
	First, Last time.Duration // its first and its last sample
	// Lifetimes counts freed objects by how long they lived: row i holds those of up to 2^i
	// milliseconds, the last row all that lived longer.
	Lifetimes []float64
}

// InUse are the bytes that the stack allocated and the program has not freed.
func (s Stack) InUse() Amount {
	return Amount{s.Allocated.Samples - min(s.Allocated.Samples, s.Freed.Samples),
		max(0, s.Allocated.Objects-s.Freed.Objects), max(0, s.Allocated.Bytes-s.Freed.Bytes)}
}

// An Amount is an estimate of a set of objects, and its number of samples. Bytes are those
// that the objects take, rounding included.
type Amount struct {
	Samples uint64
	Objects float64
	Bytes   float64
}

// A Sample is one sampled object that lives.
type Sample struct {
	Address   uint64
	Stack     int           // index into Samples.Stacks
	Class     int           // 0: a large block
	Bytes     uint64        // that it takes
	Requested uint64        // requested bytes
	Objects   float64       // how many objects it represents
	At        time.Duration // when it was allocated, since sampling was switched on
	Thread    int           // that allocated it
}

// Before describes the objects of one size class that were live when sampling was switched on. Their
// stacks are unknown.
type Before struct {
	Class   int    // 0: blocks above the largest class
	Size    uint64 // bytes of an object; 0 for class 0
	Objects uint64
	Bytes   uint64
}
