package profile

import (
	"context"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/push"
	"github.com/granary-allocator/granary/tool/internal/testkit/otelcollector"

	otel "go.opentelemetry.io/collector/pdata/pprofile"
)

// stacks are the sums of a profile's values by stack: names where there are any, else addresses.
func stacks(d otel.ProfilesDictionary, p otel.Profile) map[string]int64 {
	text, out := d.StringTable(), map[string]int64{}
	for _, sample := range p.Samples().All() {
		var names []string
		for _, i := range d.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
			location := d.LocationTable().At(int(i))
			for _, line := range location.Lines().All() {
				names = append(names, text.At(int(d.FunctionTable().At(int(line.FunctionIndex())).NameStrindex())))
			}
		}
		out[strings.Join(names, " < ")] += sample.Values().At(0)
	}
	return out
}

// Each kind of value arrives whole, with its stacks.
func TestOTLPHasEachKindOfValue(t *testing.T) {
	p := grown(t, map[string]int64{"a": 10, "b": 20})
	data, err := encodeOTLP(PushSeries{Profile: p, Resource: push.Resource{Host: "h", Command: "redis", PID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&otel.ProtoUnmarshaler{}).UnmarshalProfiles(data)
	if err != nil {
		t.Fatal(err)
	}
	d, profiles := got.Dictionary(), got.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	kinds := map[string]map[string]int64{}
	for _, each := range profiles.All() {
		kinds[d.StringTable().At(int(each.SampleType().TypeStrindex()))] = stacks(d, each)
	}
	want := map[string]int64{"a < main": 10, "b < main": 20}
	if len(kinds) != 2 || !maps.Equal(kinds[InUseSpace], want) || len(kinds[InUseObjects]) != 2 {
		t.Errorf("%v", kinds)
	}
	if d.FunctionTable().Len() != 4 || d.LocationTable().Len() != 4 {
		t.Errorf("%d functions and %d locations for 3", d.FunctionTable().Len()-1, d.LocationTable().Len()-1)
	}
}

// The command as it is called, to the collector's own receiver by both transports.
func TestTheCollectorReceivesProfiles(t *testing.T) {
	busyProgram(t)
	for _, protocol := range push.OTLP {
		receiver := otelcollector.Start(t)
		address := map[string]string{"otlp": receiver.GRPC, "otlp-http": receiver.HTTP}[protocol]
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		var errs strings.Builder
		go func() {
			ended <- cli.Main(ctx, cli.Env{Stdout: io.Discard, Stderr: &errs}, []cli.Command{Agent}, strings.Fields("profile agent --every 1s --command ^busy$ --rate 16KiB --cpu-share 1 --protocol "+protocol+" --push "+address))
		}()
		var last otel.Profiles
		for {
			if all := receiver.Profiles.AllProfiles(); len(all) >= 3 {
				last = all[2]
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		if code := <-ended; code != 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Fatalf("%s: code %d: %s", protocol, code, errs.String())
		}
		resource := last.ResourceProfiles().At(0)
		if name, _ := resource.Resource().Attributes().Get("process.executable.name"); name.Str() != "busy" {
			t.Errorf("%s: it is of %q", protocol, name.Str())
		}
		found := false
		for _, p := range resource.ScopeProfiles().At(0).Profiles().All() {
			for stack, value := range stacks(last.Dictionary(), p) {
				found = found || strings.HasPrefix(stack, "busy_site < main") && value > 0
			}
		}
		if !found {
			t.Errorf("%s: nothing that busy_site allocates was received", protocol)
		}
	}
}
