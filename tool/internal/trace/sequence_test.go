package trace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// Sizes over 512 MiB and alignments are in a word of their own.
const shapes = `
#include <pthread.h>
#include <stdlib.h>
static void* volatile kept;
static void* other(void* p) {
  for (int i = 0; i < 1000; ++i) free(malloc(i));
  free(p);
  return 0;
}
int main(void) {
  void* p = calloc(1, 3ull << 30);
  kept = realloc(p, 5ull << 30);
  kept = realloc(kept, 70);
  void* aligned = aligned_alloc(4096, 8192);
  pthread_t t;
  pthread_create(&t, 0, other, kept);
  pthread_join(t, 0);
  free(aligned);
}`

// callOf is an allocation or free as both the trace and its sequence have it.
type callOf struct {
	kind, size, align uint64
	slot, thread      uint32
	at                time.Duration
}

func callsIn(t *testing.T, data []byte) (calls []callOf) {
	t.Helper()
	if string(data[:8]) != sequenceMagic || binary.LittleEndian.Uint64(data[8:]) != sequenceVersion {
		t.Fatalf("head %q", data[:16])
	}
	next := callOf{align: 1}
	for data = data[16:]; ; data = data[8:] {
		word := binary.LittleEndian.Uint64(data)
		kind, size, slot := word&7, word>>3&(1<<29-1), uint32(word>>32)
		switch kind {
		case callEnd:
			if len(data) != 8 {
				t.Errorf("%d bytes behind the end", len(data)-8)
			}
			return calls
		case callTime:
			next.at += time.Duration(size|uint64(slot)<<29) * planTick
		case callSwitch:
			next.thread = slot
		case callDetail:
			next.align, next.size = 1<<(size>>16), uint64(slot)<<29
		default:
			c := next
			c.kind, c.size, c.slot = kind, next.size|size, slot
			calls = append(calls, c)
			next.align, next.size = 1, 0
		}
	}
}

func TestASequenceHasTheCallsOfTheTrace(t *testing.T) {
	path := recordedLoad(t, shapes)
	compareSequence(t, path)
	if _, err := PackFile(path, false); err != nil {
		t.Fatal(err)
	}
	compareSequence(t, path)
}

func compareSequence(t *testing.T, path string) {
	t.Helper()
	tr, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var out bytes.Buffer
	length, err := WriteSequence(&out, tr)
	if err != nil {
		t.Fatal(err)
	}
	calls, largest, begin := callsIn(t, out.Bytes()), uint64(0), time.Duration(-1)
	i, live := 0, map[uint32]uint64{}
	for e := range tr.Events() {
		if begin < 0 {
			begin = e.Time
		}
		want := callOf{kind: uint64(e.Kind), size: e.Size, align: e.Align, thread: e.Thread, at: (e.Time - begin).Truncate(planTick), slot: e.Place}
		switch e.Kind {
		case Free:
			want.kind, want.size = callFree, 0
		case Realloc:
			want.kind = callReallocate
		}
		if calls[i] != want {
			t.Fatalf("call %d of %d: %+v, want %+v", i, len(calls), calls[i], want)
		}
		if e.Ends() && live[e.Place] != e.Old.Number+1 || !e.Ends() && live[e.Place] != 0 {
			t.Fatalf("event %d: %+v: in its place is object %d", i, e, live[e.Place])
		}
		delete(live, e.Place)
		if e.Begins() {
			live[e.Place] = e.Object + 1
		}
		largest, i = max(largest, e.Size), i+1
	}
	if i != len(calls) || largest != 5<<30 || length.Truncate(planTick) != calls[i-1].at {
		t.Errorf("%d events, %d calls, of at most %d bytes, in %s", i, len(calls), largest, length)
	}
}

func TestLiveObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, bare := range []bool{false, true} {
		l, model, numbers := liveObjects{bare: bare}, map[uint64]Object{}, []uint64{}
		for number := uint64(0); number < 200_000; number++ {
			e := Event{Object: number, Size: random.Uint64(), Place: l.places.take()}
			l.add(&e)
			model[number] = Object{Number: number, Size: e.Size, Place: e.Place}
			numbers = append(numbers, number)
			for len(numbers) > 0 && random.IntN(int(number%40_000)+1) > 20_000 {
				i := len(numbers) - 1
				if random.IntN(2) == 0 {
					i = random.IntN(len(numbers))
				}
				n := numbers[i]
				numbers[i] = numbers[len(numbers)-1]
				numbers = numbers[:len(numbers)-1]
				want, got := model[n], Object{}
				if bare {
					want.Size = 0
				}
				if !l.take(n, &got) || got != want {
					t.Fatalf("object %d is %+v, want %+v", n, got, want)
				}
				l.places.give(got.Place)
				if l.take(n, &got) || l.take(number+1, &got) || l.take(^uint64(0), &got) {
					t.Fatalf("object %d is live twice, or one that never was", n)
				}
			}
		}
		if len(numbers) == 0 || int(l.places.count) == 200_000 {
			t.Errorf("%d objects are live at the end, %d places", len(numbers), l.places.count)
		}
	}
}
