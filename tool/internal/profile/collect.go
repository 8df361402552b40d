package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
)

// DefaultRate is the mean number of bytes between samples. At this rate sampling can stay on in production.
const DefaultRate = 512 << 10

// answerTime is how long a process may take to switch sampling on or off.
var answerTime = 5 * time.Second // tests are less patient

// errNotBegun is the answer of a process without a background thread that has not allocated since the request.
var errNotBegun = errors.New("did not allocate all the while, so it has not begun to sample")

// A Session is a period of sampling in a process. At its end it switches off sampling if it switched
// sampling on; sampling that was on before stays on.
type Session struct {
	Subject *inspect.Subject
	Rate    uint64 // bytes
	started bool
	pending bool // the process, which has no background thread, will begin when it next allocates
}

// Start switches sampling on, unless it is on.
func Start(ctx context.Context, s *inspect.Subject, rate uint64) (*Session, error) {
	session := &Session{Subject: s, Rate: rate}
	samples, err := s.Samples()
	if err != nil {
		return nil, err
	}
	if samples.Active {
		session.Rate = samples.Rate
		return session, nil
	}
	if s.PID == 0 {
		if !samples.Collected {
			return nil, errors.New("the process was not sampling when the core file was made: start it with GRANARY_CONF=prof:true, or keep `granary profile PID` running")
		}
		session.Rate = samples.Rate
		return session, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ack, err := s.Request(ctx, inspect.StartProfile(rate))
	session.pending = errors.Is(err, inspect.ErrNoAnswer)
	if err != nil && !session.pending {
		return nil, fmt.Errorf("switch sampling on: %w", err)
	}
	session.started = session.pending || ack.Bytes != 0 // otherwise another process was faster
	return session, nil
}

// WasOn says that sampling was on before, or that this is a core file: then there is no need to wait.
func (s *Session) WasOn() bool { return !s.started }

// Stop switches sampling off again if this session switched it on, and gives its memory back.
func (s *Session) Stop() error { return s.stopWithin(answerTime) }

// stopWithin is Stop that waits so long for an answer. Without one, the process does it later.
func (s *Session) stopWithin(wait time.Duration) error {
	if !s.started {
		return nil
	}
	s.started = false
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := s.Subject.Request(ctx, inspect.StopProfile())
	if errors.Is(err, inspect.ErrGone) || errors.Is(err, inspect.ErrNoAnswer) {
		return nil // it ended, or does it when it next allocates
	}
	if err != nil {
		return fmt.Errorf("switch sampling off: %w", err)
	}
	return nil
}

// Read reads the present samples. With pins it also reads the map of the heap.
func (s *Session) Read(pins bool) (Heap, error) {
	h := Heap{Title: s.Subject.Title, Library: s.Subject.Library, Taken: time.Now()}
	var err error
	if h.Samples, err = s.Subject.Samples(); err != nil {
		return h, err
	}
	if !h.Samples.Collected && s.pending {
		return h, fmt.Errorf("process %d %w; ask again while it allocates", s.Subject.PID, errNotBegun)
	}
	if h.Modules, err = s.Subject.Modules(); err != nil {
		return h, err
	}
	figures, err := s.Subject.Snapshot()
	if err != nil {
		return h, err
	}
	h.Before = stillLive(h.Samples, figures)
	h.Arenas.Count, _ = figures.Value("arenas") // older libraries tell neither
	h.Arenas.Bytes, _ = figures.Value("arenas_used")
	if pins {
		m, err := s.Subject.HeapMap()
		if err != nil {
			return h, err
		}
		h.Pins = FindPins(h.Samples, m)
	}
	return h, nil
}

// stillLive estimates the objects from before the profile that are still live. For each class these are the live
// objects without those known to be newer, at most as many as there were.
func stillLive(s *inspect.Samples, figures *inspect.Snapshot) (out []inspect.Before) {
	newer := map[int]inspect.Amount{}
	for _, sample := range s.Live {
		n := newer[sample.Class]
		n.Objects += sample.Objects
		n.Bytes += sample.Objects * float64(sample.Bytes)
		newer[sample.Class] = n
	}
	for _, b := range s.Before {
		var objects, bytes uint64
		if b.Class > 0 && b.Class <= len(figures.Classes) {
			objects = figures.Classes[b.Class-1].Live
			bytes = figures.Classes[b.Class-1].LiveBytes()
		} else {
			objects, _ = figures.Value("large_blocks")
			bytes, _ = figures.Value("large")
		}
		n := newer[b.Class]
		b.Objects = min(b.Objects, objects-min(objects, uint64(n.Objects)))
		b.Bytes = min(b.Bytes, bytes-min(bytes, uint64(n.Bytes)))
		if b.Objects > 0 && b.Bytes > 0 {
			out = append(out, b)
		}
	}
	return out
}
