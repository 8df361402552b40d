package trace

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// A bufferWriter writes words as the recorder does, but independently of the code that packs them.
type bufferWriter struct{ data []byte }

func buffer(thread uint32, ticks uint64) *bufferWriter {
	b := &bufferWriter{data: binary.LittleEndian.AppendUint32(nil, thread)}
	b.data = binary.LittleEndian.AppendUint32(b.data, formBuffers)
	b.data = binary.LittleEndian.AppendUint64(b.data, ticks)
	return b
}

func (b *bufferWriter) word(word uint64) *bufferWriter {
	b.data = binary.LittleEndian.AppendUint64(b.data, word)
	return b
}

func (b *bufferWriter) context(what, number uint64) *bufferWriter {
	return b.word(7 | what<<3 | number<<6)
}

func (b *bufferWriter) event(kind, address, size uint64) *bufferWriter {
	return b.word(kind | size<<4 | address/8<<20)
}

// withBuffers is a recording with chunks, and one further chunk of buffers.
func withBuffers(chunks []*chunkWriter, buffers ...*bufferWriter) []byte {
	var of chunkWriter
	for i := range 4 {
		data := buffer(0, 0).data
		if i < len(buffers) {
			data = buffers[i].data
		}
		of.data = append(of.data, data...)
		of.data = append(of.data, make([]byte, (i+1)*bufferBytes-len(of.data))...)
	}
	data := file(append(slices.Clone(chunks), &of)...)
	data[8] = 5
	return data
}

func TestEventsInABuffer(t *testing.T) {
	b := buffer(3, 1000).event(1, 0x1000, 100).context(0, 1045).event(2, 0x2000, 65535).
		context(1, 1<<20<<6|12).event(3, 0x3000, 0).event(5, 0x1000, 0).event(6, 0x5000, 300).
		context(2, 0x1ffff).context(0, 1046).event(1, 0x7000, 8).event(4, 0x2000, 0).
		context(2, 0x1ffff).event(4, 0x7000, 0).context(0, 1047) // the last one's event was not written
	tr := parse(t, withBuffers(nil, b))
	expect(t, tr, "alloc t3 o0, zeroed t3 o1, alloc t3 o2, realloc t3 o3 was o0, alloc t3 o4, free t3 o1, free t3 o4")
	events := slices.Collect(tr.Events())
	if e := events[2]; e.Size != 1<<20 || e.Align != 4096 || events[1].Size != 65535 || events[3].Size != 300 {
		t.Errorf("%+v", events)
	}
	if events[0].Time != 0 || events[1].Time.Microseconds() != 45 || events[6].Time.Microseconds() != 46 || len(tr.Findings.Damage) != 0 {
		t.Errorf("%+v, %+v", events, tr.Findings)
	}
}

func TestContextsInABuffer(t *testing.T) {
	b := buffer(0, 1000).context(3, 1).event(1, 0x1000, 1<<15).context(4, 20).event(4, 0x1000, 0)
	define := chunk(mapsThread-1, 0)
	define.data = append(define.data, recordOther|otherDefinesStack<<kindBits, 1, 1, 0x80, 0x20) // address 0x800
	data := withBuffers([]*chunkWriter{define}, b)
	h, _ := readRecordingHeader(data)
	h.HasWritten = 1
	if _, err := binary.Encode(data, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	tr := parse(t, data)
	events := slices.Collect(tr.Events())
	if len(events) != 2 || events[0].Stack == 0 || events[1].Old.Written != 20<<10+1 || !tr.Header.Written {
		t.Errorf("%+v, %+v", events, tr.Header)
	}
}

// The events of a thread are in chunks, a full buffer and the one that it writes into, in any order of the file.
func TestBuffersAndChunksOfOneThread(t *testing.T) {
	packed := chunk(0, 0)
	packed.data = append(packed.data, 7, 0)
	packed.data = binary.AppendUvarint(packed.data, 1200)
	packed.event(4, 0, 0x1000)
	last := buffer(0, 1300).event(1, 0x1000, 30)
	first := buffer(0, 1100).event(1, 0x1000, 10)
	tr := parse(t, withBuffers([]*chunkWriter{packed}, last, first))
	expect(t, tr, "alloc t0 o0, free t0 o0, alloc t0 o1")
	if tr.Findings.UnknownFrees+tr.Findings.MissingFrees != 0 {
		t.Errorf("%+v", tr.Findings)
	}
}

// A packer that is killed leaves a buffer that it has packed, wholly or in part.
func TestEventsThatArePackedAndInABuffer(t *testing.T) {
	whole := buffer(2, 1100).event(1, 0x1000, 10).event(4, 0x1000, 0)
	for name, copied := range map[string]*chunkWriter{"whole": chunk(2, 1100).event(1, 0, 0x1000, 10).event(4, 0, 0x1000), "a part": chunk(2, 1100).event(1, 0, 0x1000, 10)} {
		other := chunk(1, 1100).event(1, 0, 0x8000, 10)
		tr := parse(t, withBuffers([]*chunkWriter{copied, other}, whole))
		if expect(t, tr, "alloc t1 o0, alloc t2 o1, free t2 o1"); tr.Findings.MissingFrees+tr.Findings.UnknownFrees != 0 {
			t.Errorf("%s: %+v", name, tr.Findings)
		}
	}
	cleared := buffer(2, 1100).word(0).event(4, 0x1000, 0)
	tr := parse(t, withBuffers([]*chunkWriter{chunk(2, 1100).event(1, 0, 0x1000, 10).event(4, 0, 0x1000)}, cleared))
	expect(t, tr, "alloc t2 o0, free t2 o0")
}

func TestDamagedBuffers(t *testing.T) {
	good := buffer(1, 1000).event(1, 0x1000, 1)
	for name, bad := range map[string]*bufferWriter{
		"no kind":    buffer(0, 1000).event(1, 0x2000, 1).word(1 << 40),
		"no context": buffer(0, 1000).event(1, 0x2000, 1).context(7, 1),
		"no stack":   buffer(0, 1000).event(1, 0x2000, 1).context(3, 0).event(1, 0x3000, 1),
	} {
		tr := parse(t, withBuffers(nil, bad, good))
		got := lines(tr)
		if !strings.Contains(got, "alloc t0 o0") || !strings.Contains(got, "alloc t1 o1") || strings.Count(got, "alloc") != 2 {
			t.Errorf("%s: %s", name, got)
		}
		if d := tr.Findings.Damage; len(d) != 1 || !strings.Contains(d[0], "a buffer in chunk 0 is corrupted") {
			t.Errorf("%s: %q", name, d)
		}
	}
}

// Numbers of each length are packed as binary.AppendUvarint would.
func TestNumbersOfWords(t *testing.T) {
	for bit := range 64 {
		for _, number := range []uint64{1<<bit - 1, 1 << bit, 1<<bit + 1} {
			var to [16]byte
			n := putNumber(to[:], number)
			if want := binary.AppendUvarint(nil, number); !slices.Equal(to[:n], want) {
				t.Errorf("%d: %x, want %x", number, to[:n], want)
			}
		}
	}
}
