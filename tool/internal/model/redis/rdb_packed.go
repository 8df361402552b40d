package redis

import (
	"encoding/binary"
)

// largestPack is the most that a packed value may take; the server's own limit.
const largestPack = 1 << 30

// le decodes a signed little-endian number.
func le(data []byte, size int) (int64, bool) {
	if len(data) < size {
		return 0, false
	}
	var wide [8]byte
	copy(wide[8-size:], data[:size])
	return int64(binary.LittleEndian.Uint64(wide[:])) >> (64 - 8*size), true
}

var errPacked = damaged("a packed value is broken")

// listpack calls each for every entry.
func listpack(data []byte, each func(Element) error) error {
	const header, end = 6, 0xff
	if len(data) < header+1 || uint64(binary.LittleEndian.Uint32(data)) != uint64(len(data)) {
		return errPacked
	}
	for data = data[header:]; ; {
		if len(data) == 0 {
			return errPacked
		}
		if data[0] == end {
			if len(data) != 1 {
				return errPacked
			}
			return nil
		}
		e, size, ok := packEntry(data)
		if !ok {
			return errPacked
		}
		size += int(BackLength(uint64(size)))
		if size > len(data) {
			return errPacked
		}
		if err := each(e); err != nil {
			return err
		}
		data = data[size:]
	}
}

// text returns the bytes behind the head, with the size of both.
func text(data []byte, head int, length uint64) (content []byte, size int, ok bool) {
	if length > uint64(len(data)) || head+int(length) > len(data) {
		return nil, 0, false
	}
	size = head + int(length)
	return data[head:size], size, true
}

// number returns the number behind the first byte, with the size of both.
func number(data []byte, bytes int) (e Element, size int, ok bool) {
	v, ok := le(data[1:], bytes)
	return Number(v), 1 + bytes, ok
}

// packEntry is an entry with the size of its encoding and data.
func packEntry(data []byte) (e Element, size int, ok bool) {
	first := data[0]
	text := func(head int, length uint64) (Element, int, bool) {
		content, size, ok := text(data, head, length)
		return Element{Len: uint64(len(content))}, size, ok
	}
	second := uint64(0)
	if len(data) > 1 {
		second = uint64(data[1])
	}
	switch {
	case first < 0x80:
		return Number(int64(first)), 1, true
	case first < 0xc0:
		return text(1, uint64(first&0x3f))
	case first < 0xe0:
		v := int64(first&0x1f)<<8 | int64(second)
		if v >= 1<<12 {
			v -= 1 << 13
		}
		return Number(v), 2, len(data) > 1
	case first < 0xf0:
		return text(2, uint64(first&0x0f)<<8|second)
	case first == 0xf0 && len(data) >= 5:
		return text(5, uint64(binary.LittleEndian.Uint32(data[1:])))
	case first == 0xf1:
		return number(data, 2)
	case first == 0xf2:
		return number(data, 3)
	case first == 0xf3:
		return number(data, 4)
	case first == 0xf4:
		return number(data, 8)
	}
	return e, 0, false
}

// ziplist calls each for every entry of the form that listpacks replaced.
func ziplist(data []byte, each func(Element) error) error {
	const header, end, longBefore = 10, 0xff, 254
	if len(data) < header+1 || uint64(binary.LittleEndian.Uint32(data)) != uint64(len(data)) {
		return errPacked
	}
	for data = data[header:]; ; {
		if len(data) == 0 {
			return errPacked
		}
		if data[0] == end {
			return nil
		}
		before := 1
		if data[0] == longBefore {
			before = 5
		}
		if len(data) <= before {
			return errPacked
		}
		e, size, ok := zipEntry(data[before:])
		if !ok || before+size > len(data) {
			return errPacked
		}
		if err := each(e); err != nil {
			return err
		}
		data = data[before+size:]
	}
}

func zipEntry(data []byte) (e Element, size int, ok bool) {
	first := data[0]
	text := func(head int, length uint64) (Element, int, bool) {
		content, size, ok := text(data, head, length)
		return Text(content), size, ok
	}
	switch {
	case first < 0x40:
		return text(1, uint64(first))
	case first < 0x80 && len(data) > 1:
		return text(2, uint64(first&0x3f)<<8|uint64(data[1]))
	case first == 0x80 && len(data) >= 5:
		return text(5, uint64(binary.BigEndian.Uint32(data[1:])))
	case first == 0xc0:
		return number(data, 2)
	case first == 0xd0:
		return number(data, 4)
	case first == 0xe0:
		return number(data, 8)
	case first == 0xf0:
		return number(data, 3)
	case first == 0xfe:
		return number(data, 1)
	case first > 0xf0 && first < 0xfe:
		return Number(int64(first&0x0f) - 1), 1, true
	}
	return e, 0, false
}

// intset calls each for every integer.
func intset(data []byte, each func(Element) error) error {
	const header = 8
	if len(data) < header {
		return errPacked
	}
	width, count := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:]))
	if width != 2 && width != 4 && width != 8 || len(data)-header != width*count {
		return errPacked
	}
	for data = data[header:]; len(data) > 0; data = data[width:] {
		v, _ := le(data, width) // the length was checked
		if err := each(Number(v)); err != nil {
			return err
		}
	}
	return nil
}

// zipmap calls each for every field and value of the oldest form of hashes.
func zipmap(data []byte, each func(Element) error) error {
	const long, end = 254, 255
	if len(data) < 2 {
		return errPacked
	}
	data = data[1:]
	for part := 0; ; part++ {
		if len(data) == 0 {
			return errPacked
		}
		if data[0] == end {
			return nil
		}
		length, head := uint64(data[0]), 1
		if length == long {
			if len(data) < 5 {
				return errPacked
			}
			length, head = uint64(binary.LittleEndian.Uint32(data[1:])), 5
		}
		free := 0
		if part%2 == 1 { // a value has room behind it
			if len(data) <= head {
				return errPacked
			}
			free, head = int(data[head]), head+1
		}
		content, size, ok := text(data, head, length)
		if !ok || size+free > len(data) {
			return errPacked
		}
		if err := each(Text(content)); err != nil {
			return err
		}
		data = data[size+free:]
	}
}
