package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A span is a piece of the target's memory and where its bytes go.
type span struct {
	address uint64
	to      []byte
}

// memory is the address space of a target.
type memory interface {
	// read fills all spans, in their order; an unreadable one is an error.
	read(spans []span) error
	close() error
}

// errUnmapped says that an address is not mapped, or is not in the core file.
var errUnmapped = errors.New("no memory there")

func unmapped(address uint64) error {
	return fmt.Errorf("%#x: %w", address, errUnmapped)
}

func readAt(m memory, address uint64, bytes int) ([]byte, error) {
	to := make([]byte, bytes)
	return to, m.read([]span{{address, to}})
}

func readWord(m memory, address uint64) (uint64, error) {
	b, err := readAt(m, address, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// number reads `width` bytes at `offset` of b; false if they are not all there.
func number(b []byte, offset uint64, width uint32) (uint64, bool) {
	if offset > uint64(len(b)) || uint64(len(b))-offset < uint64(width) {
		return 0, false
	}
	switch at := b[offset:]; width {
	case 1:
		return uint64(at[0]), true
	case 2:
		return uint64(binary.LittleEndian.Uint16(at)), true
	case 4:
		return uint64(binary.LittleEndian.Uint32(at)), true
	case 8:
		return binary.LittleEndian.Uint64(at), true
	}
	return 0, false
}
