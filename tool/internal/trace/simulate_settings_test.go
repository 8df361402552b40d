package trace

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettingsAreAllCombinations(t *testing.T) {
	got, err := settings([]string{"dirty_decay_ms=0, 1s", "huge_pages=never,always"})
	want := []string{"dirty_decay_ms:0,huge_pages:never", "dirty_decay_ms:0,huge_pages:always", "dirty_decay_ms:1s,huge_pages:never", "dirty_decay_ms:1s,huge_pages:always"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := settings(nil); err != nil || !slices.Equal(got, []string{""}) {
		t.Errorf("%q, %v", got, err)
	}
	many := strings.Repeat("1,", maxSettings) + "2"
	for set, message := range map[string]string{
		"dirty_decay_ms":                 "has no values",
		"dirty_decay_ms=":                "has no values",
		"hardened=true":                  "shows nothing of this option",
		"dirty_decay=1":                  "there is no such option; did you mean dirty_decay_ms?",
		"foo=1":                          "there is no such option; a simulation can set dirty_decay_ms",
		"cache_bytes=" + many:            "at most 256",
		"retain=true --set retain=false": "twice",
	} {
		if _, err := settings(strings.Split(set, " --set ")); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

func TestTheGoalChooses(t *testing.T) {
	results := []Result{
		{Setting: "small, slow", MeanRSS: 100, Faults: 9000},
		{Setting: "small", MeanRSS: 101, Faults: 5000},
		{Setting: "large, fast", MeanRSS: 300, Faults: 1000},
		{Setting: "fast", MeanRSS: 200, Faults: 1010},
	}
	for goal, want := range map[string]string{"rss": "small", "speed": "fast"} {
		if got := results[best(results, goal)].Setting; got != want {
			t.Errorf("%s: %s", goal, got)
		}
	}
	if c := (Result{Misses: 10, Madvise: 1}).Cost(); c != 10*priceOfMiss+priceOfCall {
		t.Errorf("cost %v", c)
	}
	if c := (Result{Purged: 1000}).Cost(); c <= 0 || c > time.Millisecond {
		t.Errorf("cost %v", c)
	}
}
