// Package redis computes the requests that the structures of a Redis server make of its allocator, from what
// is stored and not from a server that stores it. docs/design/model.md derives the forms. What is stored comes
// from options, from a dump file (all keys, one value in memory at a time), or from a running server (a bounded
// sample).
package redis

import (
	"fmt"
	"slices"
	"strings"
)

// A Server is a release, as far as its structures differ.
type Server struct {
	Name       string
	SmallLists bool // a list that fits one listpack is nothing more
	SmallSets  bool // small sets of words are listpacks
	BareSets   bool // the table of a set points to the words themselves where a bucket has one
	LargePlain bool // an element larger than a node of a list is a node itself, without a listpack
	Bucketed   bool // tables are arrays of buckets, and the names of keys are in the objects
	Limits     Limits
}

// Limits are the settings that choose between a packed form and tables.
type Limits struct {
	HashEntries, HashValue uint64
	ZsetEntries, ZsetValue uint64
	SetInts                uint64
	SetEntries, SetValue   uint64
	ListNode               int64 // elements of a node of a list; -1 to -5: 4, 8, 16, 32, 64 KiB
	StreamBytes            uint64
	StreamEntries          uint64
}

// A Limit is a setting under the name that Redis' configuration has for it.
type Limit struct {
	Name  string
	Value *uint64
}

// Named are the limits but for the size of a list's nodes, which may be below zero.
func (l *Limits) Named() []Limit {
	return []Limit{
		{"hash-max-listpack-entries", &l.HashEntries}, {"hash-max-listpack-value", &l.HashValue},
		{"zset-max-listpack-entries", &l.ZsetEntries}, {"zset-max-listpack-value", &l.ZsetValue},
		{"set-max-intset-entries", &l.SetInts}, {"set-max-listpack-entries", &l.SetEntries}, {"set-max-listpack-value", &l.SetValue},
		{"stream-node-max-bytes", &l.StreamBytes}, {"stream-node-max-entries", &l.StreamEntries},
	}
}

// named is the limit of a name.
func (l *Limits) named(name string) *uint64 {
	all := l.Named()
	return all[slices.IndexFunc(all, func(one Limit) bool { return one.Name == name })].Value
}

var usual = Limits{
	HashEntries: 512, HashValue: 64, ZsetEntries: 128, ZsetValue: 64, SetInts: 512, SetEntries: 128, SetValue: 64,
	ListNode: -2, StreamBytes: 4096, StreamEntries: 100,
}

// Servers are the releases that are known, the default first.
var Servers = []Server{
	{Name: "redis-7.0", Limits: usual},
	{Name: "redis-8.0", SmallLists: true, SmallSets: true, BareSets: true, LargePlain: true, Limits: usual},
	{Name: "valkey-8.1", SmallLists: true, SmallSets: true, LargePlain: true, Bucketed: true, Limits: usual},
}

// Find gives the release of a name; that of the patch may be left out, as in redis-7.
func Find(name string) (Server, error) {
	var names []string
	for _, s := range Servers {
		if s.Name == name || strings.HasPrefix(s.Name, name+".") {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Server{}, fmt.Errorf("there is no model of the server %q: choose %s", name, strings.Join(names, " or "))
}

// Types are the types of values, in the order of the tables.
var Types = []string{"string", "list", "set", "zset", "hash", "stream"}

// KnownType reports whether a type is one of Types.
func KnownType(name string) bool { return slices.Contains(Types, name) }

// Nearest is the model for a version as a server states it; known is false where another release's
// structures must do.
func Nearest(version string, valkey bool) (s Server, known bool) {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 || err != nil {
		return Servers[0], false
	}
	number := major*100 + minor
	const packedSets, embeddedKeys = 702, 802                        // Redis: the release of listpacks for sets; that of another kind of table
	const namesInEntries, bucketTables, fieldsExpire = 800, 801, 900 // Valkey, which has the tables of Redis before
	switch {
	case valkey && number < bucketTables:
		return Servers[1], number >= packedSets && number < namesInEntries
	case valkey:
		return Servers[2], number < fieldsExpire
	case number < packedSets:
		return Servers[0], number >= 700
	}
	return Servers[1], number < embeddedKeys
}
