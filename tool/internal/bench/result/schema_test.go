package result

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the reference page of the results")

func TestEveryFieldOfTheResultsIsExplained(t *testing.T) {
	for _, typ := range described {
		known := map[string]bool{}
		for i := range typ.NumField() {
			name, _ := tag(typ.Field(i))
			known[name] = true
			if meanings[typ.Name()][name] == "" {
				t.Errorf("%s.%s is not explained", typ.Name(), name)
			}
		}
		for name := range meanings[typ.Name()] {
			if !known[name] {
				t.Errorf("%s has no field %s", typ.Name(), name)
			}
		}
	}
}

func TestTheReferencePageIsThatOfTheTypes(t *testing.T) {
	const path = "../../../../docs/reference/results-schema.md"
	var page bytes.Buffer
	Document(&page)
	if *update {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, page.Bytes()) {
		t.Errorf("%s is out of date (%v): run this test with -update and commit the result", path, err)
	}
}
