package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"

	pprofile "github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// grown is a profile in which main calls functions, which hold so many bytes.
func grown(t *testing.T, bytes map[string]int64) *pprofile.Profile {
	t.Helper()
	p := &pprofile.Profile{SampleType: []*pprofile.ValueType{{Type: InUseObjects, Unit: "count"}, {Type: InUseSpace, Unit: "bytes"}}}
	location := func(name string) *pprofile.Location {
		f := &pprofile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		p.Function = append(p.Function, f)
		l := &pprofile.Location{ID: uint64(len(p.Location) + 1), Line: []pprofile.Line{{Function: f}}}
		p.Location = append(p.Location, l)
		return l
	}
	main := location("main")
	for _, name := range slices.Sorted(maps.Keys(bytes)) {
		stack := []*pprofile.Location{main}
		for each := range strings.SplitSeq(name, " < ") {
			stack = slices.Insert(stack, len(stack)-1, location(each))
		}
		p.Sample = append(p.Sample, &pprofile.Sample{Location: stack, Value: []int64{1, bytes[name]}})
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

// save writes a profile as google/pprof does, or bytes.
func save(t *testing.T, name string, content any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if p, ok := content.(*pprofile.Profile); ok {
		err = p.Write(file)
	} else {
		_, err = file.Write(content.([]byte))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func compare(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, []cli.Command{Compare}, append([]string{"compare"}, args...))
	return out.String(), code
}

// Ten times as many processes, and one function with twice the share.
func TestCompareCountsByShare(t *testing.T) {
	before := save(t, "before.pb.gz", grown(t, map[string]int64{"a": 100, "malloc < b.part.0": 100, "c": 200}))
	after := save(t, "after.pb.gz", grown(t, map[string]int64{"a": 1000, "operator new < b.isra.3": 2000, "c": 1000}))
	text, code := compare(t, before, after)
	if code != 0 || !strings.Contains(text, "400 B before, 3.9 KiB after") {
		t.Fatalf("code %d:\n%s", code, text)
	}
	var order []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "points") {
			order = append(order, strings.Join(strings.Fields(line), " "))
		}
	}
	if want := []string{"+25.0 points 25.0 % 50.0 % b", "+0.0 points 25.0 % 25.0 % a", "-25.0 points 50.0 % 25.0 % c"}; !slices.Equal(order, want) {
		t.Errorf("%q", order)
	}
	text, _ = compare(t, before, after, "--absolute", "--stacks", "--limit", "1")
	if !strings.Contains(text, "+1.9 KiB") || !strings.Contains(text, "b < main") || !strings.Contains(text, "and 2 more rows") {
		t.Error(text)
	}
	text, _ = compare(t, before, after, "--json")
	var c Comparison
	if err := json.Unmarshal([]byte(text), &c); err != nil || len(c.Rows) != 3 || c.Rows[0].AfterShare != 0.5 || c.After != 4000 {
		t.Errorf("%v %+v", err, c)
	}
}

// Files of one build are added up, whatever server wrote them; a profile compared with itself has not grown.
func TestCompareAddsUpAndReadsPyroscopesAnswers(t *testing.T) {
	p := grown(t, map[string]int64{"a": 100, "b": 300})
	var raw bytes.Buffer
	if err := p.WriteUncompressed(&raw); err != nil {
		t.Fatal(err)
	}
	merged := &googlev1.Profile{} // the answer of SelectMergeProfile
	if err := proto.Unmarshal(raw.Bytes(), merged); err != nil {
		t.Fatal(err)
	}
	answer, err := proto.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	one, two := save(t, "render.pb.gz", p), save(t, "merged.pb", answer)
	text, code := compare(t, one+","+two, two)
	if code != 0 || strings.Count(text, "+0.0 points") != 2 || !strings.Contains(text, "800 B before, 400 B after") {
		t.Errorf("code %d:\n%s", code, text)
	}
	answer, err = protojson.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	text, code = compare(t, one, save(t, "merged.json", answer))
	if code == 0 || !strings.Contains(text, "ask Pyroscope's /pyroscope/render for format=pprof") {
		t.Errorf("code %d: %s", code, text)
	}
}

func TestCompareExplainsBadFiles(t *testing.T) {
	good := save(t, "good.pb.gz", grown(t, map[string]int64{"a": 100}))
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	cpu := grown(t, map[string]int64{"a": 100})
	cpu.SampleType[0].Type, cpu.SampleType[1] = "samples", &pprofile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	for _, c := range []struct {
		name    string
		content any
		want    string
	}{
		{"empty", []byte{}, "is empty: fetch the profile again"},
		{"page", []byte("<!DOCTYPE html><html>"), "is a web page, not a profile"},
		{"half", whole[:len(whole)/2], "is cut off: fetch the profile again"},
		{"text", []byte("hello there"), "is not a profile that can be read"},
		{"cpu", cpu, "the earlier profile has no cpu but inuse_objects and inuse_space"},
		{"zero", grown(t, map[string]int64{"a": 0}), "one of the profiles holds no inuse_space"},
	} {
		text, code := compare(t, good, save(t, c.name, c.content))
		if code == 0 || !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: code %d: %s", c.name, code, text)
		}
	}
	if text, code := compare(t, good, "/nowhere/at/all"); code == 0 || !strings.Contains(text, "there is no folder /nowhere/at") {
		t.Errorf("code %d: %s", code, text)
	}
}
