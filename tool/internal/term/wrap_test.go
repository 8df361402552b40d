package term

import "testing"

func TestWrapBreaksBetweenWordsAndIndents(t *testing.T) {
	got := Wrap("1. ", "most of RSS is live: `granary profile 812 --pins` shows it", 32)
	if want := "1. most of RSS is live:\n   `granary profile 812 --pins`\n   shows it"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := Wrap("", "run `a command of many words` now", 12), "run `a\ncommand of\nmany words`\nnow"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParagraphsAreFilledAgain(t *testing.T) {
	got := Paragraphs("one two\nthree\n\n  kept  as it is\n\nfour five six", 9)
	if want := "one two\nthree\n\n  kept  as it is\n\nfour five\nsix"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
