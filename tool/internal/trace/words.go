package trace

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The words of a buffer, as in core/record/words.h. A word of recordOther is context of the next event, or of all further ones.
const (
	contextTime = iota
	contextSize
	contextAddress
	contextStack
	contextWritten

	contextBits      = 6
	alignmentBits    = 6
	wordSizeShift    = 4
	wordSizeBits     = 16
	wordAddressShift = 20
	wordAddressBits  = 47
	// Most bytes that one word becomes: first byte, time, size, alignment and address, whose numbers may all be long.
	mostOfWord = 8 + 3*binary.MaxVarintLen64
)

// sizedKinds has a bit for each kind of event that has a size.
const sizedKinds = 1<<recordAllocated | 1<<recordZeroed | 1<<recordAligned | 1<<recordMoved

// A wordPacker packs the events of one buffer as the recorder's encoder does.
type wordPacker struct {
	last    uint64 // address, in units of 8 bytes
	packed  uint64 // ticks of the last event
	ticks   uint64
	size    uint64 // of the next event, as are the following
	address uint64
	align   uint8
}

// packWords appends the events of a buffer that was begun at a time to out. After an error, out has the events before it.
func packWords(out, words []byte, ticks uint64) ([]byte, error) {
	p := wordPacker{packed: ticks, ticks: ticks}
	out = slices.Grow(out, len(words)/8*mostOfWord)
	to, n := out[:cap(out)], len(out)
	for ; len(words) >= 8; words = words[8:] {
		word := binary.LittleEndian.Uint64(words)
		kind := uint8(word & (1<<kindBits - 1))
		switch {
		case kind != recordOther && kind != recordEnd:
			n += p.event((*[mostOfWord]byte)(to[n:]), kind, word)
		case word == 0:
			return to[:n], nil
		case kind == recordEnd:
			return to[:n], errDamaged
		default:
			length, err := p.context(to[n:], word>>kindBits&7, word>>contextBits)
			if err != nil {
				return to[:n], err
			}
			n += length
		}
	}
	return to[:n], nil
}

// event writes an event, and returns its length.
func (p *wordPacker) event(to *[mostOfWord]byte, kind uint8, word uint64) int {
	delta, n := p.ticks-p.packed, 1
	p.packed = p.ticks
	to[0] = kind | uint8(min(delta, longTime))<<kindBits
	if delta >= longTime {
		n += binary.PutUvarint(to[n:], delta)
	}
	size := p.size | word>>wordSizeShift&(1<<wordSizeBits-1)
	n += putNumber(to[n:], size) * int(sizedKinds>>kind&1) // no branch: which kind follows cannot be predicted
	if kind == recordAligned {
		to[n] = p.align
		n++
	}
	address := p.address | word>>wordAddressShift
	distance := int64(address - p.last)
	p.last = address
	p.size, p.address, p.align = 0, 0, 0
	return n + putNumber(to[n:], uint64(distance)<<1^uint64(distance>>63))
}

// putNumber is binary.PutUvarint, and for numbers below 1<<28 without branches: it then writes four bytes, of which it
// returns how many are the number's.
func putNumber(to []byte, number uint64) int {
	if number >= 1<<28 {
		return binary.PutUvarint(to, number)
	}
	size := (bits.Len64(number|1)*9 + 64) >> 6 // a seventh, rounded up
	groups := number&0x7f | number&0x3f80<<1 | number&0x1fc000<<2 | number&0xfe00000<<3
	binary.LittleEndian.PutUint32(to, uint32(groups|0x808080&(1<<((8*size-8)&31)-1)))
	return size
}

func (p *wordPacker) context(to []byte, what, number uint64) (int, error) {
	switch {
	case what == contextTime:
		p.ticks = number
	case what == contextSize:
		p.align, p.size = uint8(number&(1<<alignmentBits-1)), number>>alignmentBits
	case what == contextAddress:
		p.address = number << (wordAddressBits - 3)
	case what == contextStack && number > 0 && number < 1<<32:
		to[0] = recordOther | otherStack<<kindBits
		return 1 + binary.PutUvarint(to[1:], number), nil
	case what == contextWritten && number < mostWritten:
		to[0] = recordOther | otherWritten<<kindBits
		return 1 + binary.PutUvarint(to[1:], number), nil
	default:
		return 0, errDamaged
	}
	return 0, nil
}
