package redis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// A Group is the values of one type in one encoding.
type Group struct {
	Type      string  `json:"type"`
	Encoding  string  `json:"encoding"`
	Keys      float64 `json:"keys"`
	Elements  float64 `json:"elements"`
	Requested float64 `json:"requested"`
}

// A Population is the stored data: the values, added one by one, and the keyspace around them.
type Population struct {
	Server   Server
	Keyspace Keyspace
	Values   Parts
	groups   map[[2]string]*Group
	changes  []*Change
	// Unknown counts values of modules by type; the model leaves them out.
	Unknown map[string]uint64
}

// NewPopulation is empty. The savings of other limits are computed for the allocator.
func NewPopulation(s Server, a cost.Allocator) *Population {
	p := &Population{Server: s, Values: Parts{}, groups: map[[2]string]*Group{}, Unknown: map[string]uint64{}}
	p.Keyspace = Keyspace{Names: map[uint64]float64{}, Server: s}
	p.changes = changes(s, a)
	return p
}

// Key adds a key with a name of that length.
func (p *Population) Key(length uint64, expires bool) {
	p.Name(length, 1)
	p.Keyspace.Keys++
	if expires {
		p.Keyspace.Expires++
	}
}

// Name records that as many keys as times have a name of the given length.
func (p *Population) Name(length uint64, times float64) { p.Keyspace.Names[length] += times }

// Add puts in the value of times keys.
func (p *Population) Add(v *Value, times float64) {
	encoding := v.Encoding(p.Server)
	parts := v.As(p.Server, encoding)
	p.Values.Merge(parts, times)
	at := [2]string{v.Type, encoding}
	g := p.groups[at]
	if g == nil {
		g = &Group{Type: v.Type, Encoding: encoding}
		p.groups[at] = g
	}
	g.Keys += times
	g.Elements += times * float64(v.Count)
	for size, count := range parts.Heap() {
		g.Requested += times * float64(size) * count
	}
	for _, c := range p.changes {
		c.consider(v, p.Server, parts, times)
	}
}

// Groups are the types and encodings, the largest first.
func (p *Population) Groups() []Group {
	var out []Group
	for _, g := range p.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		switch {
		case a.Requested > b.Requested:
			return -1
		case a.Requested < b.Requested:
			return 1
		}
		return slices.Compare([]string{a.Type, a.Encoding}, []string{b.Type, b.Encoding})
	})
	return out
}

// Parts are the requests of the population.
func (p *Population) Parts() Parts { return p.At(p.Keyspace.Keys) }

// At are the requests of a population of the same mixture with as many keys.
func (p *Population) At(keys uint64) Parts {
	ratio := 0.0
	if p.Keyspace.Keys > 0 {
		ratio = float64(keys) / float64(p.Keyspace.Keys)
	}
	space := p.Keyspace
	space.Keys, space.Expires, space.Names = keys, uint64(ratio*float64(p.Keyspace.Expires)+0.5), map[uint64]float64{}
	for length, count := range p.Keyspace.Names {
		space.Names[length] = count * ratio
	}
	out := space.Requests()
	out.Merge(p.Values, ratio)
	return out
}

// Changes are the settings that would change how much is resident, those that save most first.
func (p *Population) Changes() []Change {
	var out []Change
	for _, c := range p.changes {
		if c.Keys > 0 {
			out = append(out, *c)
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int {
		if math.Abs(a.Saves-b.Saves) <= rounding*math.Abs(a.Saves) {
			return 0 // the smaller limit first
		}
		return cmp.Compare(b.Saves, a.Saves)
	})
	return out
}

// rounding is more than the sum of the same sizes in another order differs by, as a share.
const rounding = 1e-9

// A Change is another value of a limit, and its effect.
type Change struct {
	Setting string  `json:"setting"`
	From    uint64  `json:"from"`
	To      uint64  `json:"to"`
	Keys    float64 `json:"keys"`  // whose encoding changes
	Saves   float64 `json:"saves"` // resident bytes; below zero it costs them

	kind      string
	server    Server // with the changed limit
	allocator cost.Allocator
}

func (c Change) String() string { return fmt.Sprintf("%s %d", c.Setting, c.To) }

// changes are the alternatives for each limit: the powers of two around it.
func changes(s Server, a cost.Allocator) []*Change {
	var out []*Change
	for _, row := range []struct {
		setting, kind string
		steps         []uint64
	}{
		{"hash-max-listpack-entries", "hash", entrySteps}, {"hash-max-listpack-value", "hash", valueSteps},
		{"zset-max-listpack-entries", "zset", entrySteps}, {"zset-max-listpack-value", "zset", valueSteps},
		{"set-max-intset-entries", "set", entrySteps}, {"set-max-listpack-entries", "set", entrySteps}, {"set-max-listpack-value", "set", valueSteps},
	} {
		if !s.SmallSets && row.kind == "set" && row.setting != "set-max-intset-entries" {
			continue
		}
		for _, step := range row.steps {
			other := s
			limit := other.Limits.named(row.setting)
			from := *limit
			if step == from {
				continue
			}
			*limit = step
			out = append(out, &Change{Setting: row.setting, From: from, To: step, kind: row.kind, server: other, allocator: a})
		}
	}
	return out
}

// Beyond these a packed value is slow to search: it is read from its start.
var (
	entrySteps = []uint64{0, 32, 64, 128, 256, 512, 1024, 2048}
	valueSteps = []uint64{16, 32, 64, 128, 256, 512, 1024}
)

// consider adds the effect of the change on the values.
func (c *Change) consider(v *Value, now Server, parts Parts, times float64) {
	if v.Type != c.kind {
		return
	}
	encoding := v.Encoding(c.server)
	if encoding == v.Encoding(now) {
		return
	}
	c.Keys += times
	c.Saves += times * (c.allocator.Of(parts.Heap()).Resident - c.allocator.Of(v.As(c.server, encoding).Heap()).Resident)
}
