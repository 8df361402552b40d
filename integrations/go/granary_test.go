package granary

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func ExampleHeap() {
	frames, err := NewHeap("frames", 1<<20)
	if err != nil {
		panic(err)
	}
	defer frames.Close()
	frame, err := frames.Alloc(600 << 10)
	fmt.Println(len(frame), err)
	_, err = frames.Alloc(600 << 10)
	fmt.Println(err)
	frames.Free(frame)
	fmt.Println(frames.Figures().Live)
	// Output:
	// 614400 <nil>
	// no memory: the cap of the heap or the system refuses it
	// 0
}

func TestFigures(t *testing.T) {
	if !strings.HasPrefix(Version(), "granary ") {
		t.Errorf("the version is %q", Version())
	}
	if live, known := Stat("live"); !known || live == 0 {
		t.Errorf("live is %d, %t", live, known)
	}
	if _, known := Stat("no such figure"); known {
		t.Error("there is a figure that there is not")
	}
	ReleaseFreeMemory()
}

// Goroutines, and so threads, share a heap.
func TestShared(t *testing.T) {
	h, err := NewHeap("shared", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 1; i <= 2000; i++ {
				b, err := h.Alloc(i)
				if err != nil {
					t.Error(err)
					return
				}
				b[0], b[i-1] = byte(g), byte(g)
				if b[0] != byte(g) || b[i-1] != byte(g) {
					t.Error("another goroutine wrote here")
				}
				if i%2 == 0 {
					h.Free(b)
				}
			}
		}()
	}
	all.Wait()
	if f := h.Figures(); f.Objects != 8*1000 {
		t.Errorf("%d objects are left of 8000", f.Objects)
	}
	if _, err := h.Alloc(0); err == nil || errors.Is(err, ErrNoMemory) {
		t.Errorf("zero bytes: %v", err)
	}
}
