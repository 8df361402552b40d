package redis

import (
	"testing"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

// Values of 20 to 100 letters fit as well under each limit from 128 on, so the smallest of these comes first, although
// sums of the same sizes in another order differ in the last digits.
func TestTheSmallestOfEqualLimitsComesFirst(t *testing.T) {
	for range 40 {
		p := NewPopulation(Servers[0], cost.TCMalloc)
		for i := range uint64(300) {
			v := &Value{}
			v.Reset("hash")
			for j := range uint64(20) {
				v.Pair(Element{Len: 8}, Element{Len: 20 + (i*31+j*7)%81})
			}
			p.Add(v, 1)
		}
		if c := p.Changes()[0]; c.Setting != "hash-max-listpack-value" || c.To != 128 {
			t.Fatalf("%+v comes first", c)
		}
	}
}
