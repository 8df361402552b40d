package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// A Form describes the elements of a value: strings of one length, or the numbers from 0 upward.
type Form struct {
	Text string
	Len  uint64
	Ints bool
	// Space is how many elements have the form, 0 for any number.
	Space float64
}

// FormHelp describes the syntax that ParseForm reads.
const FormHelp = "a length in bytes, int (the numbers from 0 upward), or a form such as uuid or user:{seq:6}"

// ParseForm reads a length, "int", or a form of keys.
func ParseForm(text string) (Form, error) {
	if text == "int" {
		return Form{Text: text, Ints: true}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		const most = 512 << 20
		if n > most {
			return Form{}, fmt.Errorf("a string of %d bytes is more than the 512 MiB that Redis takes", n)
		}
		return Form{Text: text, Len: n}, nil
	}
	if text != "uuid" && !strings.Contains(text, "{") {
		return Form{}, fmt.Errorf("%q is neither a length nor a form: give %s", text, FormHelp)
	}
	k, err := ParseKey(text)
	if err != nil {
		return Form{}, err
	}
	return Form{Text: text, Len: uint64(k.Len()), Space: k.Space()}, nil
}

// element is the i-th of the form.
func (f Form) element(i uint64) Element {
	if f.Ints {
		return Number(int64(i))
	}
	return Element{Len: f.Len}
}

// A Spec is a data set: a number of keys whose values are all of the same size.
type Spec struct {
	Server  Server
	Keys    uint64
	Key     Form
	Type    string
	Members uint64 // elements of a value
	Member  Form   // elements of sets and sorted sets, fields of hashes
	Value   Form   // strings, elements of lists, values of hashes and streams
	Fields  uint64 // of an entry of a stream
	Expires float64
	Moving  bool
}

// largest is the maximum number of elements of a value that are computed one by one.
const largest = 100_000_000

// One is the value of a key.
func (s Spec) One() (*Value, error) {
	if s.Members > largest {
		return nil, fmt.Errorf("a value of %d elements is more than the %d that are computed", s.Members, largest)
	}
	var v Value
	v.Reset(s.Type)
	switch s.Type {
	case "string":
		v.String(s.Value.element(sharedUpTo)) // one object serves all of those below
	case "stream":
		s.stream(&v)
	default:
		for i := range s.Members {
			s.put(&v, i)
		}
	}
	return &v, nil
}

func (s Spec) put(v *Value, i uint64) {
	switch s.Type {
	case "list":
		v.Push(s.Server, s.Value.element(i))
	case "set":
		v.Member(s.Member.element(i))
	case "zset":
		v.Scored(s.Member.element(i), Number(int64(i)))
	case "hash":
		v.Pair(s.Member.element(i), s.Value.element(i))
	}
}

// Population returns the data set with all its values.
func (s Spec) Population(a cost.Allocator) (*Population, error) {
	v, err := s.One()
	if err != nil {
		return nil, err
	}
	p := NewPopulation(s.Server, a)
	p.Keyspace = s.Keyspace()
	if s.Server.Bucketed { // the name's length matters for the value's block
		for length, keys := range p.Keyspace.Names {
			v.Key(length, s.Expires)
			p.Add(v, keys)
		}
		return p, nil
	}
	values := float64(s.Keys)
	if s.Type == "string" && s.Value.Ints {
		values = max(0, values-sharedUpTo)
	}
	p.Add(v, values)
	return p, nil
}

// Keyspace is that of the data set.
func (s Spec) Keyspace() Keyspace {
	names := map[uint64]float64{}
	if s.Key.Ints {
		for length, first := uint64(1), uint64(0); first < s.Keys; length++ {
			next := max(10, first*10)
			names[length] = float64(min(next, s.Keys) - first)
			first = next
		}
	} else {
		names[s.Key.Len] = float64(s.Keys)
	}
	return Keyspace{Keys: s.Keys, Expires: uint64(s.Expires*float64(s.Keys) + 0.5), Names: names, Moving: s.Moving, Server: s.Server}
}

// firstID is a time in milliseconds, the first part of an entry's id.
const firstID = 1_700_000_000_000

// stream lays out the entries of a stream that come one a millisecond. Its nodes are listpacks that begin
// with the names of the fields.
func (s Spec) stream(v *Value) {
	var tree Counter
	packs := map[uint64]uint64{}
	l := s.Server.Limits
	field := s.Member.element(0)
	text := s.Fields * (field.Len + s.Value.element(0).Len)
	begin := packHeader + packEnd + 2*packed(Number(0)) + packed(Number(int64(s.Fields))) + s.Fields*packed(field) + packed(Number(0))
	bytes, entries := uint64(0), uint64(0)
	for i := range s.Members {
		full := l.StreamBytes > 0 && bytes+text >= l.StreamBytes || l.StreamEntries > 0 && entries >= l.StreamEntries
		if bytes == 0 || full {
			if bytes > 0 {
				packs[bytes]++
			}
			tree.Add(streamKey(firstID + i))
			bytes, entries = begin, 0
		}
		bytes += packed(Number(2)) + packed(Number(int64(entries))) + packed(Number(0)) + s.Fields*packed(s.Value.element(i)) + packed(Number(int64(s.Fields+3)))
		entries++
	}
	if bytes > 0 {
		packs[max(bytes, min(l.StreamBytes, streamRoom))]++ // the last has its room from the start
	}
	v.Count = s.Members
	v.Stream(&tree, packs)
}

// streamRoom is the size of a new node of a stream.
const streamRoom = 4096

func streamKey(millisecond uint64) []byte {
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key, millisecond)
	return key
}
