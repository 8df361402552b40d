package options

import (
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func TestSettingsTakeUnitsAndAreCheckedByTheLibrarysOwnTable(t *testing.T) {
	library, err := inspect.OpenLibrary(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		"hard_limit:50MiB":     "hard_limit:52428800",
		"hard_limit=1GiB":      "hard_limit:1073741824",
		"dirty_decay_ms=5s":    "dirty_decay_ms:5000",
		"hard_limit:2kb":       "hard_limit:2000",
		"dirty_decay_ms:2 M":   "dirty_decay_ms:120000",
		"dirty_decay_ms:-1":    "dirty_decay_ms:-1",
		"dirty_decay_ms:200":   "dirty_decay_ms:200",
		"huge_pages=never":     "huge_pages:never",
		"huge_pages:2":         "huge_pages:2",
		"check_at_exit=false":  "check_at_exit:false",
		"oversize_threshold:0": "oversize_threshold:0",
	} {
		if got, err := Normal(library.Options, setting); err != nil || got != want {
			t.Errorf("%s: %q, %v", setting, got, err)
		}
	}
	for setting, want := range map[string]string{
		"dirty_dekay_ms:5":  `there is no option "dirty_dekay_ms"; did you mean "dirty_decay_ms"?`,
		"dirty_decay_ms":    `"dirty_decay_ms" has no value: write NAME:VALUE`,
		"dirty_decay_ms:5x": `dirty_decay_ms cannot be "5x": write milliseconds, or a duration such as 500ms or 5s`,
		"dirty_decay_ms:2h": "dirty_decay_ms cannot be 2h, only -1 to 3600000 milliseconds",
		"hard_limit:50M":    `hard_limit cannot be "50M": write a number, or a size such as 64KiB or 50MiB`,
		"hard_limit:much":   `hard_limit cannot be "much": write a number, or a size such as 64KiB or 50MiB`,
		"huge_pages:maybe":  `huge_pages cannot be "maybe", only default, always, never`,
		"check_at_exit=yes": `check_at_exit cannot be "yes", only true, false, 1, 0`,
	} {
		if _, err := Normal(library.Options, setting); err == nil || err.Error() != want {
			t.Errorf("%s: it said %v", setting, err)
		}
	}
}

func TestWrongRowsAreNamedWithTheNearest(t *testing.T) {
	known := []inspect.Option{{Name: "dirty_decay_ms", Lowest: -1, Highest: 3600000}, {Name: "abort_conf", Type: "bool", Highest: 1}}
	got := Wrong(known, "dirty_dekay_ms:5,dirty_decay_ms:-2,abort_conf:true,,colour:red,abort_conf")
	want := []string{`there is no option "dirty_dekay_ms"; did you mean "dirty_decay_ms"?`, "dirty_decay_ms cannot be -2, only -1 to 3600000 milliseconds",
		`there is no option "colour"`, `"abort_conf" has no value: write NAME:VALUE`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}
