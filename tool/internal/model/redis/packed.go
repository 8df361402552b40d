package redis

import (
	"math"
	"strconv"
)

// An Element is a member, a field or a value: how long it is, and whether it is an integer.
type Element struct {
	Len   uint64
	Int   int64
	IsInt bool // written as Redis writes integers, so that it is stored as one
}

const packHeader, packEnd = 6, 1

// EmptyListpack is the size of a listpack without entries.
const EmptyListpack = packHeader + packEnd

// Packed is the size of an entry of a listpack.
func Packed(e Element) uint64 { return packed(e) }

// packed is the size of an entry of a listpack: encoding, data, and its length for reading backward.
func packed(e Element) uint64 {
	size := e.Len
	switch {
	case e.IsInt:
		size = packedInt(e.Int)
	case size < 1<<6:
		size++
	case size < 1<<12:
		size += 2
	default:
		size += 5
	}
	return size + BackLength(size)
}

func packedInt(v int64) uint64 {
	switch {
	case v >= 0 && v < 1<<7:
		return 1
	case v >= -1<<12 && v < 1<<12:
		return 2
	case v >= -1<<15 && v < 1<<15:
		return 3
	case v >= -1<<23 && v < 1<<23:
		return 4
	case v >= -1<<31 && v < 1<<31:
		return 5
	}
	return 9
}

// BackLength is the bytes of the length that follows a listpack entry of so many bytes, for readers that walk backward.
func BackLength(size uint64) uint64 {
	switch {
	case size < 1<<7:
		return 1
	case size < 1<<14-1:
		return 2
	case size < 1<<21-1:
		return 3
	case size < 1<<28-1:
		return 4
	}
	return 5
}

// intWidth is the bytes of an integer in an intset.
func intWidth(v int64) uint64 {
	switch {
	case v >= -1<<15 && v < 1<<15:
		return 2
	case v >= -1<<31 && v < 1<<31:
		return 4
	}
	return 8
}

// digits is the length of an integer as text.
func digits(v int64) uint64 {
	n := uint64(1)
	if v < 0 {
		n++
	}
	for v /= 10; v != 0; v /= 10 {
		n++
	}
	return n
}

// Number is the element that an integer makes.
func Number(v int64) Element { return Element{Len: digits(v), Int: v, IsInt: true} }

// LongestInt is the length of the longest integer of 64 bits.
const LongestInt = 20

// Text is the element that a text makes: an integer if the text is the usual form of one.
func Text[T string | []byte](text T) Element {
	if len(text) <= LongestInt {
		if v, err := strconv.ParseInt(string(text), 10, 64); err == nil && strconv.FormatInt(v, 10) == string(text) {
			return Number(v)
		}
	}
	return Element{Len: uint64(len(text))}
}

// Score is a score as an element of a listpack: an integer, or text of 17 digits.
func Score(v float64) Element {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return Number(int64(v))
	}
	return Element{Len: uint64(len(strconv.FormatFloat(v, 'g', 17, 64)))}
}
