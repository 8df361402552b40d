package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"

	"github.com/klauspost/compress/zstd"
)

// A packer writes events as blocks.
type packer struct {
	out     io.Writer
	encoder *zstd.Encoder
	block   []byte
	events  uint32 // in block
	thread  uint32
	ticks   uint64
	total   uint64
	objects uint64
	err     error
}

// Packed describes a packed trace.
type Packed struct {
	Events   uint64   `json:"events"`
	Threads  int      `json:"threads"`
	Findings Findings `json:"findings"`
}

// Pack writes t to w in the packed format.
func Pack(w io.Writer, t *Trace) (Packed, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return Packed{}, fmt.Errorf("make a compressor: %w", err)
	}
	p := &packer{out: w, encoder: encoder}
	p.prefix(t.Header)
	threads := map[uint32]bool{}
	for e := range t.Events() {
		p.add(e)
		threads[e.Thread] = true
		if p.err != nil {
			break
		}
	}
	p.flush()
	end := Packed{Events: p.total, Threads: len(threads), Findings: t.Findings}
	p.end(end)
	return end, p.err
}

// PackFile replaces the recording at path by the packed trace, without names if it has to be anonymous.
func PackFile(path string, anonymous bool) (Packed, error) {
	t, err := Open(path)
	if err != nil {
		return Packed{}, err
	}
	defer t.Close()
	if anonymous {
		t.Header.dropNames()
	}
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Packed{}, err
	}
	defer os.Remove(part) // renamed if all went well
	buffered := bufio.NewWriter(file)
	end, err := Pack(buffered, t)
	if err = cmp.Or(err, buffered.Flush(), file.Close()); err != nil {
		return end, fmt.Errorf("pack the trace, which stays as it was recorded: %w", err)
	}
	return end, os.Rename(part, path)
}

func (p *packer) write(data []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(data)
	}
}

func (p *packer) prefix(h Header) {
	text, err := json.Marshal(h)
	if err != nil {
		p.err = err
		return
	}
	version := uint32(packedVersion)
	switch {
	case h.Written:
	case len(h.Stacks) > 0:
		version = versionWithStacks
	default:
		version = versionWithoutStacks
	}
	prefix := binary.LittleEndian.AppendUint32([]byte(packedMagic), version)
	p.write(append(binary.LittleEndian.AppendUint32(prefix, uint32(len(text))), text...))
}

// end writes a block of no events, whose content is JSON.
func (p *packer) end(end Packed) {
	text, err := json.Marshal(end)
	if err != nil {
		p.err = cmp.Or(p.err, err)
		return
	}
	p.put(text, 0)
}

func (p *packer) put(content []byte, events uint32) {
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(content)))
	header = binary.LittleEndian.AppendUint32(header, crc32.ChecksumIEEE(content))
	p.write(append(binary.LittleEndian.AppendUint32(header, events), content...))
}

func (p *packer) first(kind uint8, delta uint64) {
	if delta < longTime {
		p.block = append(p.block, kind|uint8(delta)<<kindBits)
		return
	}
	p.block = binary.AppendUvarint(append(p.block, kind|longTime<<kindBits), delta)
}

func (p *packer) add(e Event) {
	if e.Thread != p.thread {
		p.first(packThread, 0)
		p.block = binary.AppendUvarint(p.block, uint64(e.Thread))
		p.thread = e.Thread
	}
	if e.Begins() && e.Stack != 0 {
		p.first(packStack, 0)
		p.block = binary.AppendUvarint(p.block, uint64(e.Stack))
	}
	if e.Ends() && e.Old.Written != 0 {
		p.first(packWritten, 0)
		p.block = binary.AppendUvarint(p.block, e.Old.Written>>10)
	}
	ticks := max(p.ticks, uint64(e.Time/packedTick))
	p.first(kindOf(e), ticks-p.ticks)
	p.ticks = ticks
	if e.Ends() {
		p.block = binary.AppendUvarint(p.block, p.objects-e.Old.Number)
	}
	if e.Begins() {
		p.block = binary.AppendUvarint(p.block, e.Size)
		p.objects++
	}
	if kindOf(e) == packAligned {
		p.block = append(p.block, uint8(bits.TrailingZeros64(e.Align)))
	}
	if p.events++; len(p.block) > maxBlockBytes/2 {
		p.flush()
	}
}

func kindOf(e Event) uint8 {
	switch {
	case e.Kind == Free:
		return packFree
	case e.Kind == Realloc:
		return packRealloc
	case e.Kind == Zeroed:
		return packZeroed
	case e.Align > 1:
		return packAligned
	}
	return packAlloc
}

func (p *packer) flush() {
	if len(p.block) == 0 {
		return
	}
	p.put(p.encoder.EncodeAll(p.block, nil), p.events)
	p.total += uint64(p.events)
	p.block, p.events = p.block[:0], 0
}
