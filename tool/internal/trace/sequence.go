package trace

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// The words of a sequence, as in core/simulate/sequence.h.
const (
	sequenceMagic   = "gransequ"
	sequenceVersion = 2
	callAllocate    = 0
	callZeroed      = 1
	callFree        = 2
	callReallocate  = 3
	callSwitch      = 4
	callTime        = 5
	callDetail      = 6
	callEnd         = 7
	callKindBits    = 3
	callSizeBits    = 29
	sequenceBatch   = 256 << 10
)

// A sequencer writes the calls of all threads as one list of words, in which the place of an object is its slot.
type sequencer struct {
	out     io.Writer
	batch   []byte
	begin   time.Duration
	ticks   uint64
	thread  uint32            // of the last event
	threads map[uint32]uint32 // their numbers in the sequence, in the order of their first events
	words   uint64
	err     error
	written map[uint64]uint64 // bytes of an object that were written, plus one, where known
}

// WriteSequence writes the sequence of a trace, and returns how long the trace is.
func WriteSequence(out io.Writer, t *Trace) (time.Duration, error) {
	s := &sequencer{out: out, batch: make([]byte, 0, sequenceBatch), threads: map[uint32]uint32{}, written: writtenIn(t)}
	s.batch = binary.LittleEndian.AppendUint64(append(s.batch, sequenceMagic...), sequenceVersion)
	var last time.Duration
	for e := range t.BareEvents() {
		if s.words == 0 {
			s.begin, s.thread, s.threads[e.Thread] = e.Time, e.Thread, 0
		}
		last = e.Time
		s.event(e)
		if s.err != nil {
			return 0, s.err
		}
	}
	if s.words == 0 {
		return 0, nothingIn(t, "simulate")
	}
	s.put(callEnd, 0, 0)
	s.flush()
	return last - s.begin, s.err
}

func (s *sequencer) event(e Event) {
	if ticks := uint64((e.Time - s.begin) / planTick); ticks > s.ticks {
		delay := ticks - s.ticks
		s.put(callTime, delay&(1<<callSizeBits-1), uint32(min(delay>>callSizeBits, math.MaxUint32)))
		s.ticks = ticks
	}
	if e.Thread != s.thread {
		s.goOnIn(e.Thread)
	}
	if e.Kind == Free {
		s.put(callFree, 0, e.Place)
		return
	}
	s.detail(e)
	kind := uint64(callAllocate)
	switch e.Kind {
	case Zeroed:
		kind = callZeroed
	case Realloc:
		kind = callReallocate
	}
	s.put(kind, e.Size&(1<<callSizeBits-1), e.Place)
}

func (s *sequencer) goOnIn(thread uint32) {
	number, known := s.threads[thread]
	if !known {
		number = uint32(len(s.threads))
		s.threads[thread] = number
	}
	s.put(callSwitch, 0, number)
	s.thread = thread
}

// detail writes what the word of the next allocation has no room for.
func (s *sequencer) detail(e Event) {
	written := uint16(0)
	if len(s.written) > 0 {
		written = share(s.written[e.Object], e.Size)
	}
	if e.Align > 1 || written != 0 || e.Size >= 1<<callSizeBits {
		s.put(callDetail, uint64(bits.TrailingZeros64(max(1, e.Align)))<<16|uint64(written), uint32(min(e.Size>>callSizeBits, math.MaxUint32)))
	}
}

func (s *sequencer) put(kind, size uint64, slot uint32) {
	s.words++
	s.batch = binary.LittleEndian.AppendUint64(s.batch, kind|size<<callKindBits|uint64(slot)<<(callKindBits+callSizeBits))
	if len(s.batch) == cap(s.batch) {
		s.flush()
	}
}

func (s *sequencer) flush() {
	if _, err := s.out.Write(s.batch); err != nil && s.err == nil {
		s.err = fmt.Errorf("write the sequence: %w", err)
	}
	s.batch = s.batch[:0]
}
