package term

import "testing"

func TestWrapBreaksBetweenWordsAndIndents(t *testing.T) {
	got := Wrap("1. ", "most of RSS is live: `granary profile 812 --pins` shows it", 30)
	if want := "1. most of RSS is live:\n   `granary profile 812\n   --pins` shows it"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParagraphsAreFilledAgain(t *testing.T) {
	got := Paragraphs("one two\nthree\n\n  kept  as it is\n\nfour five six", 9)
	if want := "one two\nthree\n\n  kept  as it is\n\nfour five\nsix"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
