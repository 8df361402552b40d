package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"connectrpc.com/connect"
	pprofile "github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
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

// merged is a profile as Pyroscope's querier answers it.
func merged(t *testing.T, p *pprofile.Profile) *googlev1.Profile {
	t.Helper()
	var raw bytes.Buffer
	if err := p.WriteUncompressed(&raw); err != nil {
		t.Fatal(err)
	}
	m := &googlev1.Profile{}
	if err := proto.Unmarshal(raw.Bytes(), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// querier is Pyroscope's querier, which knows one profile.
type querier struct {
	querierv1connect.UnimplementedQuerierServiceHandler
	profile *googlev1.Profile
}

func (q querier) SelectMergeProfile(_ context.Context, r *connect.Request[querierv1.SelectMergeProfileRequest]) (*connect.Response[googlev1.Profile], error) {
	if r.Msg.ProfileTypeID != "memory:inuse_space:bytes:space:bytes" || r.Msg.LabelSelector != `{service_name="app"}` || r.Msg.End <= r.Msg.Start {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("another query"))
	}
	return connect.NewResponse(q.profile), nil
}

// asked is the answer to the request of docs/guides/heap-profile.md, through Pyroscope's own code for it.
func asked(t *testing.T, m *googlev1.Profile) []byte {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(querierv1connect.NewQuerierServiceHandler(querier{profile: m}))
	server := httptest.NewServer(mux)
	defer server.Close()
	const request = `{"profileTypeID": "memory:inuse_space:bytes:space:bytes", "labelSelector": "{service_name=\"app\"}",
		"start": 1700000000000, "end": 1700003600000}`
	response, err := http.Post(server.URL+"/querier.v1.QuerierService/SelectMergeProfile", "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s (%v)", response.Status, answer, err)
	}
	return answer
}

// Files of one build are added up, whatever server wrote them; a profile compared with itself has not grown.
func TestCompareAddsUpAndReadsPyroscopesAnswers(t *testing.T) {
	p := grown(t, map[string]int64{"a": 100, "b": 300})
	binary, err := proto.Marshal(merged(t, p)) // profilecli writes it compressed, which save does for one
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := save(t, "profilecli.pb.gz", p), save(t, "answer.pb", binary), save(t, "answer.json", asked(t, merged(t, p)))
	got, code := compare(t, one+","+two, three)
	if code != 0 || strings.Count(got, "+0.0 points") != 2 || !strings.Contains(got, "800 B before, 400 B after") {
		t.Errorf("code %d:\n%s", code, got)
	}
}

// Parca writes one value for each sample, the labels of the series with it, mappings that claim to have functions, and
// locations whose function it does not know.
func TestCompareReadsParcasFiles(t *testing.T) {
	parca := func(bytes map[string]int64) string {
		p := grown(t, bytes)
		p.SampleType, p.PeriodType = p.SampleType[1:], &pprofile.ValueType{Type: "space", Unit: "bytes"}
		p.Mapping = []*pprofile.Mapping{{ID: 1, Start: 0x1000, Limit: 0x9000, File: "/srv/app", BuildID: "abc", HasFunctions: true}}
		unknown := &pprofile.Location{ID: uint64(len(p.Location) + 1), Mapping: p.Mapping[0], Address: 0x1234}
		p.Location = append(p.Location, unknown)
		for _, s := range p.Sample {
			s.Value, s.Label = s.Value[1:], map[string][]string{"service_name": {"app"}, "pid": {"7"}}
		}
		p.Sample = append(p.Sample, &pprofile.Sample{Location: []*pprofile.Location{unknown}, Value: []int64{bytes["a"]}})
		return save(t, "parca.pb.gz", p)
	}
	got, code := compare(t, parca(map[string]int64{"a": 100, "b": 200}), parca(map[string]int64{"a": 300, "b": 200}))
	for _, want := range []string{"400 B before, 800 B after", "+12.5 points 25.0 % 37.5 % a", "+12.5 points 25.0 % 37.5 % [no name, in app]", "-25.0 points 50.0 % 25.0 % b"} {
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("code %d, no %q in\n%s", code, want, got)
		}
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
		{"render.json", []byte(`{"version":1,"flamebearer":{"names":["total"]}}`), "is a flame graph of Pyroscope's /pyroscope/render"},
		{"nothing.json", []byte("{}"), "is an empty profile"},
		{"results.json", []byte(`{"schema":2}`), "is JSON, not a profile: `granary bench compare`"},
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
