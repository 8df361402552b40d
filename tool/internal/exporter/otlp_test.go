package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/push"
	"github.com/granary-allocator/granary/tool/internal/testkit/otelcollector"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// points are the values in metrics: by process and name, and whether they end a series.
type pointKey struct {
	pid  int64
	name string
}

func pointsOf(all []pmetric.Metrics) (values map[pointKey][]float64, ended map[pointKey]bool, resources []pcommon.Map) {
	values, ended = map[pointKey][]float64{}, map[pointKey]bool{}
	for _, m := range all {
		for _, resource := range m.ResourceMetrics().All() {
			attributes := resource.Resource().Attributes()
			resources = append(resources, attributes)
			pid, _ := attributes.Get("process.pid")
			for _, scope := range resource.ScopeMetrics().All() {
				for _, metric := range scope.Metrics().All() {
					for _, p := range pointsIn(metric).All() {
						k := pointKey{pid.Int(), metric.Name()}
						values[k] = append(values[k], p.DoubleValue())
						ended[k] = ended[k] || p.Flags().NoRecordedValue()
					}
				}
			}
		}
	}
	return values, ended, resources
}

func pointsIn(metric pmetric.Metric) pmetric.NumberDataPointSlice {
	if metric.Type() == pmetric.MetricTypeSum {
		return metric.Sum().DataPoints()
	}
	return metric.Gauge().DataPoints()
}

// The command as it is called, to the collector's own receiver by both transports.
func TestTheCollectorReceivesARealProcess(t *testing.T) {
	pid := granary(t)
	for _, protocol := range push.OTLP {
		receiver := otelcollector.Start(t)
		address := map[string]string{"otlp": receiver.GRPC, "otlp-http": receiver.HTTP}[protocol]
		var errs bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		args := fmt.Sprintf("exporter --pid %d --every 1s --label deployment.environment.name=test --protocol %s --push %s", pid, protocol, address)
		go func() {
			ended <- cli.Main(ctx, cli.Env{Stdout: io.Discard, Stderr: &errs, Version: "1.2.3"}, []cli.Command{Command}, strings.Fields(args))
		}()
		for receiver.Metrics.DataPointCount() == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		if code := <-ended; code != 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Fatalf("%s: code %d, %q", protocol, code, errs.String())
		}
		values, _, resources := pointsOf(receiver.Metrics.AllMetrics()[:1])
		if live := values[pointKey{int64(pid), "granary.live"}]; len(live) != 1 || live[0] < 1 {
			t.Errorf("%s: live is %v", protocol, live)
		}
		if rss := values[pointKey{int64(pid), "process.memory.usage"}]; len(rss) != 1 || rss[0] < 1<<20 {
			t.Errorf("%s: process.memory.usage is %v", protocol, rss)
		}
		for name, want := range map[string]string{"service.name": "sleep", "process.pid": strconv.Itoa(pid), "deployment.environment.name": "test"} {
			if got, _ := resources[0].Get(name); got.AsString() != want {
				t.Errorf("%s: %s is %q, want %q", protocol, name, got.AsString(), want)
			}
		}
		created, _ := resources[0].Get("process.creation.time")
		if at, err := time.Parse(time.RFC3339Nano, created.Str()); err != nil || time.Since(at) > time.Hour {
			t.Errorf("%s: it was created at %q", protocol, created.Str())
		}
	}
}

// What Prometheus makes of OpenTelemetry's names are the names it scrapes.
func TestNamesAreThoseOfPrometheus(t *testing.T) {
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	all := []*definition{define(snapshot().Metrics[0]), define(snapshot().Metrics[5])}
	for _, m := range classMetrics {
		all = append(all, define(m.Metric))
	}
	for _, m := range libraryMetrics(t) {
		all = append(all, define(m))
	}
	for _, d := range append(all, ownMetrics...) {
		var kind otlptranslator.MetricType = otlptranslator.MetricTypeGauge
		if d.kind == dto.MetricType_COUNTER {
			kind = otlptranslator.MetricTypeMonotonicCounter
		}
		got, err := namer.Build(otlptranslator.Metric{Name: d.otel, Unit: d.unit, Type: kind})
		want := d.name
		if d == rssMetric {
			want = "process_memory_usage_bytes"
		}
		if err != nil || got != want {
			t.Errorf("%s (%s) is %s in Prometheus, which scrapes %s (%v)", d.otel, d.unit, got, want, err)
		}
	}
}

func someGroups(n int) []group {
	known := definitions{}
	var processes []Process
	for i := range n {
		processes = append(processes, Process{PID: i + 1, Command: "a", ticks: 7, Started: time.Unix(100, 0), RSS: 1 << 20, Snapshot: snapshot()})
	}
	return processGroups(Reading{Processes: processes}, known)
}

func decode(t *testing.T, requests [][]byte) (all []pmetric.Metrics) {
	t.Helper()
	for _, r := range requests {
		m, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// A process that ended gets points that say so, once; another one with its PID is a new resource.
func TestSeriesOfEndedProcessesEnd(t *testing.T) {
	e := newOTLPEncoder("1", nil)
	first, err := e.encode(someGroups(3), time.Unix(200, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, ended, _ := pointsOf(decode(t, first)); ended[pointKey{3, "granary.live"}] {
		t.Error("the series of a process that runs ended")
	}
	rest := someGroups(3)
	rest[1].ticks = 8 // process 2 has another owner
	second, err := e.encode(rest[:2], time.Unix(260, 0))
	if err != nil {
		t.Fatal(err)
	}
	values, ended, resources := pointsOf(decode(t, second))
	if len(resources) != 4 || !ended[pointKey{3, "granary.live"}] || ended[pointKey{1, "granary.live"}] || len(values[pointKey{2, "granary.live"}]) != 2 {
		t.Errorf("%d resources, %v, %v", len(resources), ended, values[pointKey{2, "granary.live"}])
	}
	third, err := e.encode(rest[:2], time.Unix(320, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, resources := pointsOf(decode(t, third)); len(resources) != 2 {
		t.Errorf("%d resources, want 2", len(resources))
	}
}

// gRPC servers refuse messages above 4 MiB.
func TestRequestsAreBounded(t *testing.T) {
	requests, err := newOTLPEncoder("1", nil).encode(someGroups(3000), time.Unix(200, 0))
	if err != nil {
		t.Fatal(err)
	}
	values, _, _ := pointsOf(decode(t, requests))
	if len(values) < 3000*10 || len(requests) < 2 {
		t.Errorf("%d values in %d requests", len(values), len(requests))
	}
	for _, r := range requests {
		if len(r) > 2<<20 {
			t.Errorf("a request has %d bytes", len(r))
		}
	}
}

// A server that refuses a part says why; one that does not answer is reported once, and its return too.
func TestRefusalsAreReported(t *testing.T) {
	answer := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	defer server.Close()
	collector, err := push.NewCollector("otlp-http", push.Metrics, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := collector.Send(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") {
		t.Errorf("%v", err)
	}
	answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x08\x08\x03\x12\x04full")) } // partial_success
	if err := collector.Send(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `refuses 3 values: "full"`) {
		t.Errorf("%v", err)
	}
	var logged bytes.Buffer
	p := pusher{log: log.New(&logged, "", 0)}
	last := ""
	for _, err := range []error{errors.New("down"), errors.New("down"), nil, nil} {
		last = p.report(err, last)
	}
	if logged.String() != "down\nthe server answers again\n" {
		t.Errorf("%q", logged.String())
	}
}

// libraryMetrics are those of the built library's table.
func libraryMetrics(t *testing.T) []inspect.Metric {
	t.Helper()
	l, err := inspect.OpenLibrary(libraryPath())
	if err != nil {
		t.Skipf("the library is not built: %v", err)
	}
	return l.Metrics
}
