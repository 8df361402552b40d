package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// The layout of a recording, as in core/record/format.h.
const (
	recordingMagic   = "granrec\n"
	recordingVersion = 5 // 1 is without stacks, 2 with all of its events, 4 with the written part of objects, 5 with buffers
	headerBytes      = 64 << 10
	chunkBytes       = 64 << 10
	chunkHeaderBytes = 16
	kindBits         = 3
	longTime         = 31
	// of a recording that has the written part of large objects
	versionWithWritten = 4
	// of recordings with buffers, whose header says whether they have the written part
	versionWithBuffers = 5
)

// Buffers hold events that are not packed. A table in the header has the place of each, and its state in the lowest bits.
const (
	formBuffers     = 1
	bufferBytes     = 16 << 10
	buffersOfChunk  = chunkBytes / bufferBytes
	bufferTable     = 4096
	mostBuffers     = (headerBytes - bufferTable) / 4
	bufferStateBits = 2
	bufferFull      = 2
	bufferIsPacked  = 3
	bufferFree      = 0
)

// The kinds of recorded events.
const (
	recordEnd = iota
	recordAllocated
	recordZeroed
	recordAligned
	recordFreed
	recordMoving
	recordMoved
	recordOther
)

// What is no event, in the high bits of recordOther.
const (
	otherThread = iota
	otherStack
	otherDefinesStack
	otherWritten
)

// mapsThread is the thread of chunks that hold rows of /proc/PID/maps.
const mapsThread = 1<<32 - 1

type stamp struct{ Ticks, Nanoseconds uint64 }

type recordingHeader struct {
	Magic           [8]byte
	Version         uint32
	ChunkBytes      uint32
	Chunks          uint64
	MaxChunks       uint64
	Sample          uint64
	Lost            uint64
	PID             uint64
	UnixNanoseconds uint64
	First, Last     stamp
	Stop            uint32
	Forked          uint32
	Allocator       [1024]byte
	Program         [1024]byte
	Overwritten     uint64 // ticks up to which events are incomplete; 0: no event is missing
	HasWritten      uint32
	Buffers         uint32 // rows of the table in use
	Packer          uint32 // not 0: another process packs full buffers
	_               uint32
	PIDNamespace    uint64 // inode of the namespace in which the process is PID; 0: unknown
	ProcessStart    uint64 // in clock ticks since boot; 0: unknown
}

var stops = map[uint32]string{0: "", 1: "the file reached its limit (--max-bytes)", 2: "the disk was full", 3: "more threads than the file has chunks recorded at the same time (give a larger --max-bytes)"}

func text(field []byte) string {
	head, _, _ := bytes.Cut(field, []byte{0})
	return string(head)
}

func readRecordingHeader(data []byte) (recordingHeader, error) {
	var h recordingHeader
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil || len(data) < headerBytes {
		return h, fmt.Errorf("it is cut: a recording has a header of %d bytes, the file has %d", headerBytes, len(data))
	}
	if h.Version == 0 || h.Version > recordingVersion {
		return h, fmt.Errorf("it has version %d of the recording format, this command reads up to version %d; use a newer granary", h.Version, recordingVersion)
	}
	if h.ChunkBytes != chunkBytes || h.Sample == 0 || h.Chunks > h.MaxChunks {
		return h, fmt.Errorf("its header is corrupted: chunks of %d bytes, %d of %d in use, sample %d", h.ChunkBytes, h.Chunks, h.MaxChunks, h.Sample)
	}
	return h, nil
}

func (h recordingHeader) header() Header {
	out := Header{
		Program: text(h.Program[:]), Allocator: text(h.Allocator[:]), PID: h.PID, Started: time.Unix(0, int64(h.UnixNanoseconds)),
		Sample: h.Sample, Forked: h.Forked != 0, Stopped: stops[h.Stop], Lost: h.Lost, Written: h.Version == versionWithWritten || h.HasWritten != 0,
	}
	out.Length = h.clock()(h.Last.Ticks)
	return out
}

// window is the header of the part of the recording that is complete.
func (h recordingHeader) window() recordingHeader {
	passed := uint64(h.clock()(h.Overwritten))
	h.UnixNanoseconds += passed
	h.First = stamp{Ticks: max(h.First.Ticks, h.Overwritten), Nanoseconds: h.First.Nanoseconds + passed}
	return h
}

// clock returns the conversion of ticks to the time since the start.
func (h recordingHeader) clock() func(ticks uint64) time.Duration {
	perTick := 0.0
	if h.Last.Ticks > h.First.Ticks && h.Last.Nanoseconds > h.First.Nanoseconds {
		perTick = float64(h.Last.Nanoseconds-h.First.Nanoseconds) / float64(h.Last.Ticks-h.First.Ticks)
	}
	return func(ticks uint64) time.Duration {
		return time.Duration(float64(max(ticks, h.First.Ticks)-h.First.Ticks) * perTick)
	}
}
