package exporter

import (
	"os"
	"time"

	"github.com/granary-allocator/granary/tool/internal/push"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// batch is how many points one request holds at most, beyond one group: servers refuse messages above 4 MiB.
const batch = 10_000

// An otlpEncoder turns groups into requests. It remembers the groups of the last time.
type otlpEncoder struct {
	host, version string
	labels        []push.Label
	started       time.Time // of the exporter
	last          map[identified]group
}

// An identified names a group.
type identified struct {
	command string
	pid     int
	ticks   uint64
}

func (g group) id() identified { return identified{g.command, g.pid, g.ticks} }

func newOTLPEncoder(version string, labels []push.Label) *otlpEncoder {
	host, _ := os.Hostname() // without it, the attribute is missing
	return &otlpEncoder{host: host, version: version, labels: labels, started: time.Now()}
}

// encode returns the requests for the groups. A group that is no longer there gets points without a value, which end
// its series: servers would continue them for minutes otherwise.
func (e *otlpEncoder) encode(groups []group, taken time.Time) ([][]byte, error) {
	now := make(map[identified]group, len(groups))
	var requests [][]byte
	metrics := pmetric.NewMetrics()
	flush := func() error {
		if metrics.ResourceMetrics().Len() == 0 {
			return nil
		}
		request, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(metrics)
		requests, metrics = append(requests, request), pmetric.NewMetrics()
		return err
	}
	points := 0
	put := func(g group, ended bool) error {
		e.put(metrics, g, taken, ended)
		if points += len(g.points); points < batch {
			return nil
		}
		points = 0
		return flush()
	}
	for _, g := range groups {
		now[g.id()] = g
		if err := put(g, false); err != nil {
			return nil, err
		}
	}
	for id, g := range e.last {
		if _, there := now[id]; there {
			continue
		}
		if err := put(g, true); err != nil {
			return nil, err
		}
	}
	e.last = now
	err := flush()
	return requests, err
}

// put adds a group, whose process is the resource.
func (e *otlpEncoder) put(to pmetric.Metrics, g group, taken time.Time, ended bool) {
	resource := to.ResourceMetrics().AppendEmpty()
	resource.SetSchemaUrl(push.SchemaURL)
	about := push.Resource{Host: e.host, Command: g.command, PID: g.pid, Started: g.started, Labels: e.labels}
	if g.command == "" {
		about.Command = "granary-exporter"
	}
	about.Put(resource.Resource().Attributes())
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("granary")
	scope.Scope().SetVersion(e.version)
	began := g.started
	if began.IsZero() {
		began = e.started
	}
	metrics := map[*definition]pmetric.NumberDataPointSlice{}
	for _, p := range g.points {
		points, ok := metrics[p.definition]
		if !ok {
			points = newMetric(scope.Metrics(), p.definition)
			metrics[p.definition] = points
		}
		at := points.AppendEmpty()
		at.SetTimestamp(pcommon.NewTimestampFromTime(taken))
		if p.kind == dto.MetricType_COUNTER || p.upDown {
			at.SetStartTimestamp(pcommon.NewTimestampFromTime(began))
		}
		if p.also.name != "" {
			at.Attributes().PutStr(p.also.name, p.also.value)
		}
		if ended {
			at.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		} else {
			at.SetDoubleValue(p.value)
		}
	}
}

func newMetric(to pmetric.MetricSlice, d *definition) pmetric.NumberDataPointSlice {
	m := to.AppendEmpty()
	m.SetName(d.otel)
	m.SetUnit(d.unit)
	m.SetDescription(d.help)
	counter := d.kind == dto.MetricType_COUNTER
	if !counter && !d.upDown {
		return m.SetEmptyGauge().DataPoints()
	}
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(counter)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	return sum.DataPoints()
}
