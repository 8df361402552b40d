package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// A segment is a part of a chunk that one thread wrote.
type segment struct {
	data     []byte
	ticks    uint64
	buffered bool // it is in a buffer still
}

// A recording is a file as the recorder writes it.
type recording struct {
	header  recordingHeader
	chunks  []byte
	threads map[uint32][]segment
	stacks  map[uint32][]uint64 // return addresses, the innermost first
	maps    []string            // rows of /proc/PID/maps
	numbers map[uint32]uint32   // of events, by those of stacks
}

// readRecording indexes the chunks. A mistake in a chunk ends that chunk and is reported.
func readRecording(data []byte, found *Findings) (*recording, error) {
	header, err := readRecordingHeader(data)
	if err != nil {
		return nil, err
	}
	header.Last.Ticks = max(header.Last.Ticks, header.Overwritten) // of a process that was killed
	r := &recording{header: header, chunks: data[headerBytes:], threads: map[uint32][]segment{}, stacks: map[uint32][]uint64{}}
	present := uint64(len(r.chunks)) / chunkBytes
	if present < header.Chunks {
		found.damage("the file is cut: it has %d of %d chunks", present, header.Chunks)
	}
	for i := range min(present, header.Chunks) {
		r.index(i, found)
	}
	for thread, segments := range r.threads {
		segments = withoutCopies(segments)
		r.threads[thread] = segments
		slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.ticks, b.ticks) })
	}
	return r, nil
}

// index splits a chunk into the segments of its threads.
func (r *recording) index(number uint64, found *Findings) {
	chunk := r.chunks[number*chunkBytes:][:chunkBytes]
	if r.header.Version >= versionWithBuffers && binary.LittleEndian.Uint32(chunk[4:]) == formBuffers {
		for part := range slices.Chunk(chunk, bufferBytes) {
			r.indexBuffer(number, part, found)
		}
		return
	}
	thread, ticks := binary.LittleEndian.Uint32(chunk), binary.LittleEndian.Uint64(chunk[8:])
	body := chunk[chunkHeaderBytes:]
	if thread == mapsThread {
		rows, _, _ := bytes.Cut(body, []byte{0})
		r.maps = append(r.maps, strings.Split(string(rows), "\n")...)
		return
	}
	d, begin := decoder{data: body, ticks: ticks, define: r.stacks}, 0
	add := func(end int) {
		if end > begin {
			r.threads[thread] = append(r.threads[thread], segment{data: body[begin:end], ticks: ticks})
		}
	}
	for {
		at := len(body) - len(d.data)
		event, err := d.next()
		if err != nil {
			found.damage("chunk %d is corrupted at byte %d; the rest of the chunk is left out", number, at+chunkHeaderBytes)
		}
		if err != nil || event.kind == recordEnd {
			add(at)
			return
		}
		if event.kind == recordOther {
			add(at)
			thread, ticks, begin = event.thread, event.ticks, len(body)-len(d.data)
		}
	}
}

// indexBuffer adds the events that a thread has written and nobody has packed.
func (r *recording) indexBuffer(chunk uint64, buffer []byte, found *Findings) {
	thread, ticks := binary.LittleEndian.Uint32(buffer), binary.LittleEndian.Uint64(buffer[8:])
	data, err := packWords(nil, buffer[chunkHeaderBytes:], ticks)
	if err != nil {
		found.damage("a buffer in chunk %d is corrupted; the rest of the buffer is left out", chunk)
	}
	if len(data) > 0 {
		r.threads[thread] = append(r.threads[thread], segment{data: data, ticks: ticks, buffered: true})
	}
}

// withoutCopies leaves out what was packed of buffers that are still there: the packer was killed before it cleared them.
func withoutCopies(segments []segment) []segment {
	buffered := map[uint64]bool{}
	for _, s := range segments {
		if s.buffered {
			buffered[s.ticks] = true
		}
	}
	return slices.DeleteFunc(segments, func(s segment) bool { return !s.buffered && buffered[s.ticks] })
}

// events returns the events of all threads, merged.
func (r *recording) events(found *Findings, _ bool) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		m := newMerge(r, found, yield)
		m.run()
	}
}
