package redis

import (
	"math"
	"strconv"
)

// A form describes how the values of one type of the format are read.
type form struct {
	kind string
	read func(r *reader) error
}

// forms are the types of the format.
var forms = map[byte]form{
	0:  {"string", (*reader).str},
	1:  {"list", func(r *reader) error { return r.elements(1, r.push) }},
	2:  {"set", func(r *reader) error { return r.elements(1, r.member) }},
	3:  {"zset", func(r *reader) error { return r.sorted(r.scoreText) }},
	4:  {"hash", func(r *reader) error { return r.elements(2, r.pairs()) }},
	5:  {"zset", func(r *reader) error { return r.sorted(r.scoreBinary) }},
	9:  {"hash", func(r *reader) error { return r.packed(zipmap, r.pairs()) }},
	10: {"list", func(r *reader) error { return r.packed(ziplist, r.push) }},
	11: {"set", func(r *reader) error { return r.packed(intset, r.member) }},
	12: {"zset", func(r *reader) error { return r.packed(ziplist, r.scores()) }},
	13: {"hash", func(r *reader) error { return r.packed(ziplist, r.pairs()) }},
	14: {"list", (*reader).zipNodes},
	15: {"stream", func(r *reader) error { return r.stream(1) }},
	16: {"hash", func(r *reader) error { return r.packed(listpack, r.pairs()) }},
	17: {"zset", func(r *reader) error { return r.packed(listpack, r.scores()) }},
	18: {"list", (*reader).packNodes},
	19: {"stream", func(r *reader) error { return r.stream(2) }},
	20: {"set", func(r *reader) error { return r.packed(listpack, r.member) }},
	21: {"stream", func(r *reader) error { return r.stream(3) }},
	22: {"hash", func(r *reader) error { return r.timedFields(false) }},
	23: {"hash", func(r *reader) error { return r.packed(listpack, r.triples()) }},
	24: {"hash", func(r *reader) error { return r.timedFields(true) }},
	25: {"hash", func(r *reader) error {
		if err := r.skip(8); err != nil {
			return err
		}
		return r.packed(listpack, r.triples())
	}},
}

const moduleValue, moduleEarly, valkeyTimedHash = 7, 6, 22

// read reads a value of the type; known is false for one of a module.
func (r *reader) read(kind byte) (known bool, err error) {
	f, known := forms[kind]
	switch {
	case kind == moduleValue:
		return false, r.module()
	case kind == moduleEarly:
		return false, damaged("a module's value in the form of a test release, which does not state its length")
	case !known:
		return false, damaged("%d is no type of a value", kind)
	case r.info.Valkey && kind == valkeyTimedHash:
		f.read = (*reader).valkeyHash
	}
	r.value.Reset(f.kind)
	return true, f.read(r)
}

func (r *reader) str() error {
	e, err := r.text()
	r.value.String(e)
	return err
}

func (r *reader) push(e Element) error {
	r.value.Push(r.server, e)
	return nil
}

func (r *reader) member(e Element) error {
	r.value.Member(e)
	return nil
}

// inTurn receives the elements of a value in groups of a size.
func inTurn(size int, group func(e []Element)) func(Element) error {
	var elements []Element
	return func(e Element) error {
		if elements = append(elements, e); len(elements) == size {
			group(elements)
			elements = elements[:0]
		}
		return nil
	}
}

// pairs receives fields and values alternately.
func (r *reader) pairs() func(Element) error {
	return inTurn(2, func(e []Element) { r.value.Pair(e[0], e[1]) })
}

// triples receives fields, values and times of expiry in turn.
func (r *reader) triples() func(Element) error {
	return inTurn(3, func(e []Element) { r.value.Pair(e[0], e[1]) })
}

// scores receives elements and scores alternately.
func (r *reader) scores() func(Element) error {
	return inTurn(2, func(e []Element) { r.value.Scored(e[0], e[1]) })
}

// elements reads a number, and that many times per strings.
func (r *reader) elements(per uint64, each func(Element) error) error {
	count, err := r.number()
	if err != nil {
		return err
	}
	for i := uint64(0); i/per < count; i++ {
		e, err := r.text()
		if err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// packed reads a string that is a packed value.
func (r *reader) packed(walk func([]byte, func(Element) error) error, each func(Element) error) error {
	data, err := r.blob(largestPack)
	if err != nil {
		return err
	}
	return walk(data, each)
}

func (r *reader) sorted(score func() (Element, error)) error {
	count, err := r.number()
	if err != nil {
		return err
	}
	for range count {
		e, err := r.text()
		if err != nil {
			return err
		}
		s, err := score()
		if err != nil {
			return err
		}
		r.value.Scored(e, s)
	}
	return nil
}

// scoreText is a score written as text behind a byte of its length; 253 to 255 are not finite.
func (r *reader) scoreText() (Element, error) {
	length, err := r.byte()
	if err != nil || length >= 253 {
		return Element{Len: 3}, err
	}
	data, err := r.bytes(uint64(length))
	if err != nil {
		return Element{}, err
	}
	v, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return Element{}, damaged("%q is no score", data)
	}
	return Score(v), nil
}

func (r *reader) scoreBinary() (Element, error) {
	n, err := r.uint(8)
	return Score(math.Float64frombits(n)), err
}

// zipNodes are the nodes of a list; the server turns each into a listpack.
func (r *reader) zipNodes() error {
	count, err := r.number()
	if err != nil {
		return err
	}
	for range count {
		bytes, elements := uint64(EmptyListpack), uint64(0)
		err := r.packed(ziplist, func(e Element) error {
			bytes += Packed(e)
			elements++
			return nil
		})
		if err != nil {
			return err
		}
		r.value.Node(bytes, elements, false)
	}
	return nil
}

func (r *reader) packNodes() error {
	const alone, packed = 1, 2
	count, err := r.number()
	if err != nil {
		return err
	}
	for range count {
		container, err := r.number()
		if err != nil {
			return err
		}
		switch container {
		case alone:
			e, err := r.text()
			if err != nil {
				return err
			}
			r.value.Node(e.Len, 1, true)
		case packed:
			data, err := r.blob(largestPack)
			if err != nil {
				return err
			}
			elements := uint64(0)
			if err := listpack(data, func(Element) error { elements++; return nil }); err != nil {
				return err
			}
			r.value.Node(uint64(len(data)), elements, false)
		default:
			return damaged("%d is no kind of a list's node", container)
		}
	}
	return nil
}

// timedFields is a hash whose fields expire: a time, the field, the value.
func (r *reader) timedFields(least bool) error {
	if least {
		if err := r.skip(8); err != nil {
			return err
		}
	}
	count, err := r.number()
	if err != nil {
		return err
	}
	pair := r.pairs()
	for range count {
		if _, err := r.number(); err != nil {
			return err
		}
		if err := r.texts(2, pair); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) valkeyHash() error {
	count, err := r.number()
	if err != nil {
		return err
	}
	pair := r.pairs()
	for range count {
		if err := r.texts(2, pair); err != nil {
			return err
		}
		if err := r.skip(8); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) texts(count int, each func(Element) error) error {
	for range count {
		e, err := r.text()
		if err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}
