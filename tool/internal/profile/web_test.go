package profile

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func webSample() *profile.Profile {
	f := &profile.Function{ID: 1, Name: "store::Put", SystemName: "store::Put"}
	l := &profile.Location{ID: 1, Address: 0x10, Line: []profile.Line{{Function: f, Line: 3}}}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{2, 4096}}},
		Location:   []*profile.Location{l}, Function: []*profile.Function{f},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1,
	}
}

func TestReportsOfPprof(t *testing.T) {
	var out bytes.Buffer
	v := Web{Profile: webSample(), Type: "inuse_space", Out: &out}
	if err := v.Report("-top"); err != nil || !strings.Contains(out.String(), "store::Put") || !strings.Contains(out.String(), "4kB") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := v.Report("-list=["); err == nil {
		t.Error("a wrong expression was accepted")
	}
}

// The pages answer on a free port of this machine, and end with the context.
func TestWebPage(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Web{Profile: webSample(), Type: "inuse_space", Listen: ":0", Out: w}.Serve(ctx)
		w.Close()
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(string(line[:n]), " ")
	if !strings.HasPrefix(address, "http://127.0.0.1:") && !strings.HasPrefix(address, "http://[::1]:") {
		t.Fatalf("it listens at %q, not on this machine alone", address)
	}
	for _, page := range []string{"/", "/flamegraph?si=inuse_objects", "/top", "/peek?f=Put", "/source?f=Put", "/ui/top"} {
		answer, err := http.Get(address + page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || (!bytes.Contains(body, []byte("store::Put")) && page != "/source?f=Put") {
			t.Errorf("%s: %v, %s, %d bytes", page, err, answer.Status, len(body))
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := (Web{Profile: webSample(), Listen: "nonsense", Out: w}).Serve(context.Background()); err == nil {
		t.Error("a wrong address was accepted")
	}
}
