package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// Readings begin soon after the start of sampling and become rarer, so that a process that ends early has been read,
// and reading stays below a twentieth of the time.
const (
	firstReading = 100 * time.Millisecond
	rarer        = 1.5
	leastPause   = 20 // times as long as a reading takes
)

// Follow samples for a while, or until ctx is done, and reads the process at the end. The samples are in the process:
// if it ends before, the last reading is the result.
func (s *Session) Follow(ctx context.Context, wait time.Duration) (Heap, error) {
	var last Heap
	pid, end, pause := s.Subject.PID, time.Now().Add(wait), firstReading
	for {
		left := time.Until(end)
		alive := sleep(ctx, pid, min(pause, left))
		over := ctx.Err() != nil || time.Until(end) <= 0
		began := time.Now()
		h, err := s.Read(true)
		switch {
		case err == nil && over:
			return h, nil
		case err == nil:
			last = h
		case !alive || errors.Is(err, inspect.ErrGone):
			return s.ended(last)
		case over:
			return h, err
		}
		pause = max(time.Duration(float64(pause)*rarer), leastPause*time.Since(began))
	}
}

// ended is the last reading of a process that has ended.
func (s *Session) ended(last Heap) (Heap, error) {
	if last.Samples == nil || !last.Samples.Collected {
		return last, fmt.Errorf("process %d ended before a sample of it could be read: start it with `granary leaks -- COMMAND`, which reports at the end of a program", s.Subject.PID)
	}
	last.Ended = max(time.Millisecond, time.Since(last.Taken))
	return last, nil
}
