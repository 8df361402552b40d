package redis

import (
	"bytes"
	"encoding/binary"
	"hash/crc64"
	"io"
	"strconv"
)

// jones is the polynomial of Redis' checksum, reversed.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum continues from sum. Unlike the checksum of the standard package it begins at 0 and is not
// inverted.
func checksum(sum uint64, data []byte) uint64 { return ^crc64.Update(^sum, jones, data) }

func (r *reader) byte() (byte, error) {
	b, err := r.in.ReadByte()
	if err != nil {
		return 0, err
	}
	r.offset++
	r.sum = checksum(r.sum, []byte{b})
	return b, nil
}

// Write lets the reader be the target of io.CopyN: it adds the bytes to the checksum.
func (r *reader) Write(data []byte) (int, error) {
	r.offset += uint64(len(data))
	r.sum = checksum(r.sum, data)
	return len(data), nil
}

func (r *reader) skip(n uint64) error {
	const most = 1 << 62
	if n > most {
		return damaged("a string of %d bytes", n)
	}
	_, err := io.CopyN(r, r.in, int64(n))
	return err
}

// bytes reads n bytes. Memory grows with the bytes that exist, not with n, which may be damaged.
func (r *reader) bytes(n uint64) ([]byte, error) {
	const most = 1 << 62
	if n > most {
		return nil, damaged("a string of %d bytes", n)
	}
	var out bytes.Buffer
	_, err := io.CopyN(io.MultiWriter(&out, r), r.in, int64(n))
	return out.Bytes(), err
}

// uint reads a little-endian number of the given number of bytes.
func (r *reader) uint(size int) (uint64, error) {
	var data [8]byte
	for i := range size {
		b, err := r.byte()
		if err != nil {
			return 0, err
		}
		data[i] = b
	}
	return binary.LittleEndian.Uint64(data[:]), nil
}

// length reads a length, or the code of a special string.
func (r *reader) length() (n uint64, special bool, err error) {
	first, err := r.byte()
	if err != nil {
		return 0, false, err
	}
	low := uint64(first & 0x3f)
	var size int
	switch {
	case first>>6 == 0:
		return low, false, nil
	case first>>6 == 1:
		size = 1
	case first>>6 == 3:
		return low, true, nil
	case first == 0x80:
		low, size = 0, 4
	case first == 0x81:
		low, size = 0, 8
	default:
		return 0, false, damaged("%#x begins no length", first)
	}
	for range size {
		b, err := r.byte()
		if err != nil {
			return 0, false, err
		}
		low = low<<8 | uint64(b)
	}
	return low, false, nil
}

// number reads a length that is no special string.
func (r *reader) number() (uint64, error) {
	n, special, err := r.length()
	if special {
		return 0, damaged("there is a string in the place of a number")
	}
	return n, err
}

func (r *reader) lengths(count int) error {
	for range count {
		if _, err := r.number(); err != nil {
			return err
		}
	}
	return nil
}

// Special strings.
const (
	asInt8 = iota
	asInt16
	asInt32
	asLZF
)

// text reads a string and keeps its length only, and its value if it is an integer.
func (r *reader) text() (Element, error) {
	n, special, err := r.length()
	switch {
	case err != nil:
		return Element{}, err
	case special && n <= asInt32:
		v, err := r.integer(n)
		return Number(v), err
	case special && n == asLZF:
		packed, full, err := r.compressed()
		if err != nil {
			return Element{}, err
		}
		return Element{Len: full}, r.skip(packed)
	case special:
		return Element{}, damaged("%d is no form of a string", n)
	case n <= LongestInt:
		data, err := r.bytes(n)
		return Text(data), err
	}
	return Element{Len: n}, r.skip(n)
}

func (r *reader) integer(form uint64) (int64, error) {
	n, err := r.uint(1 << form)
	switch form {
	case asInt8:
		return int64(int8(n)), err
	case asInt16:
		return int64(int16(n)), err
	}
	return int64(int32(n)), err
}

// compressed reads the two lengths of a compressed string. Three bytes encode 264 at most.
func (r *reader) compressed() (packed, full uint64, err error) {
	if packed, err = r.number(); err != nil {
		return 0, 0, err
	}
	if full, err = r.number(); err != nil {
		return 0, 0, err
	}
	if packed == 0 || full/264 > packed {
		return 0, 0, damaged("%d compressed bytes cannot be %d", packed, full)
	}
	return packed, full, nil
}

// blob reads a string with its contents.
func (r *reader) blob(most uint64) ([]byte, error) {
	n, special, err := r.length()
	switch {
	case err != nil:
		return nil, err
	case special && n <= asInt32:
		v, err := r.integer(n)
		return strconv.AppendInt(nil, v, 10), err
	case special && n == asLZF:
		packed, full, err := r.compressed()
		if err != nil {
			return nil, err
		}
		if full > most {
			return nil, damaged("%d bytes where up to %d can be", full, most)
		}
		data, err := r.bytes(packed)
		if err != nil {
			return nil, err
		}
		return decompress(data, full)
	case special:
		return nil, damaged("%d is no form of a string", n)
	case n > most:
		return nil, damaged("%d bytes where up to %d can be", n, most)
	}
	return r.bytes(n)
}

// decompress undoes LZF: runs of literals, and references of length and distance backward.
func decompress(in []byte, full uint64) ([]byte, error) {
	broken := damaged("a compressed string is broken")
	out := make([]byte, 0, min(full, 1<<20))
	for len(in) > 0 {
		control := int(in[0])
		in = in[1:]
		if control < 32 {
			if control++; len(in) < control {
				return nil, broken
			}
			out, in = append(out, in[:control]...), in[control:]
			continue
		}
		length := control >> 5
		if length == 7 {
			if len(in) == 0 {
				return nil, broken
			}
			length, in = length+int(in[0]), in[1:]
		}
		if len(in) == 0 {
			return nil, broken
		}
		from := len(out) - (control&31)<<8 - int(in[0]) - 1
		in = in[1:]
		if length += 2; from < 0 || uint64(len(out)+length) > full {
			return nil, broken
		}
		for i := range length {
			out = append(out, out[from+i])
		}
	}
	if uint64(len(out)) != full {
		return nil, broken
	}
	return out, nil
}
