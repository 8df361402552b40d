package micro

import (
	"reflect"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/bench/result"
)

func TestAsMuchIsWarmedAsTheProgramTookMostAndNeverMoreThanAQuarter(t *testing.T) {
	const gib = 1 << 30
	for limit, want := range map[string][]int64{
		"":           {firstWarmed, 300 << 20, 1 * gib},
		"1073741824": {256 << 20, 256 << 20, 256 << 20},
		"max":        {firstWarmed, 300 << 20, 1 * gib},
	} {
		var touched []int64
		w := newWarmer(result.Machine{MemoryBytes: 4 * gib, MemoryLimit: limit})
		w.touch = func(bytes int64) { touched = append(touched, bytes) }
		w.warm("a")
		w.note("a", 300<<20)
		w.note("a", 200<<20)
		w.warm("a")
		w.note("a", 5*gib)
		w.warm("a")
		if !reflect.DeepEqual(touched, want) {
			t.Errorf("with limit %q: %v, want %v", limit, touched, want)
		}
	}
}

func TestTouchGivesMemoryBack(t *testing.T) {
	for range 64 {
		touch(64 << 20) // 4 GiB if none of it was purged
	}
	touch(-1)
}
