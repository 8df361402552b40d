package term

import (
	"bytes"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		done, total, width int
		elapsed            time.Duration
		want               string
	}{
		{0, 10, 60, 0, "[..............................]   0 %  redis"},
		{5, 10, 60, 30 * time.Second, "[###############...............]  50 %  30s left  redis"},
		{10, 10, 60, time.Minute, "[##############################] 100 %  0s left  redis"},
		{5, 10, 30, 30 * time.Second, "[###...]  50 %  30s left  redis"},
		{5, 10, 12, 30 * time.Second, "  50 %  30s "},
	} {
		if got := Bar("redis", c.done, c.total, c.elapsed, c.width); len(got) > c.width || c.width == 60 && got != c.want {
			t.Errorf("Bar(%d/%d, %d) = %q (%d columns), want %q", c.done, c.total, c.width, got, len(got), c.want)
		}
	}
}

func TestRemaining(t *testing.T) {
	if _, ok := Remaining(0, 10, time.Second); ok {
		t.Error("a time is known before the first part is done")
	}
	if d, ok := Remaining(2, 10, 20*time.Second); !ok || d != 80*time.Second {
		t.Errorf("remaining %v", d)
	}
	if d, _ := Remaining(12, 10, 20*time.Second); d != 0 {
		t.Errorf("more done than announced leaves %v", d)
	}
}

func TestProgressOffATerminalIsALineAStep(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	p := NewProgress(&out, func() time.Time { return clock }, 4)
	p.Step("round 1/1 glibc")
	p.Tick("SET")
	p.Tick("GET")
	clock = clock.Add(10 * time.Second)
	p.Step("round 1/1 granary")
	p.Drop(1)
	p.Step("later")
	p.Close()
	want := "round 1/1 glibc (0 % done, time left unknown)\nround 1/1 granary (50 % done, 10s left)\nlater (66 % done, 5s left)\n"
	if out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}
