package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"google.golang.org/protobuf/encoding/protowire"
)

// OTLP are the names of the two transports of OTLP.
var OTLP = []string{"otlp", "otlp-http"}

// A Signal is a kind of telemetry.
type Signal int

// The signals. Profiles are in development: their version is part of the procedure's name.
const (
	Metrics Signal = iota
	Profiles
)

// procedures of OTLP, for each protocol and signal.
var procedures = map[string][2]Procedure{
	"otlp": {
		{GzipGRPC, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"},
		{GzipGRPC, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"},
	},
	"otlp-http": {{HTTP, "/v1/metrics"}, {HTTP, "/v1development/profiles"}},
}

// A Collector is a server that speaks OTLP.
type Collector struct{ client *Client }

// NewCollector prepares to send a signal to the server at base.
func NewCollector(protocol string, signal Signal, base string, header http.Header) (*Collector, error) {
	both, ok := procedures[protocol]
	if !ok {
		return nil, fmt.Errorf("there is no protocol %q: choose %s", protocol, strings.Join(OTLP, " or "))
	}
	client, err := New(both[signal], base, header)
	return &Collector{client}, err
}

// Send sends an encoded request. What the server refuses is an error, even if it accepts the rest.
func (c *Collector) Send(ctx context.Context, request []byte) error {
	answer, err := c.client.Send(ctx, request)
	if err != nil {
		return err
	}
	const partialSuccess, errorMessage = 1, 2
	partial := field(answer, partialSuccess)
	if rejected := rejectedIn(partial); rejected > 0 {
		return fmt.Errorf("send to %s: it refuses %d values: %q", c.client.url, rejected, field(partial, errorMessage))
	}
	return nil
}

// rejectedIn is the first field of a partial success: how much was refused.
func rejectedIn(partial []byte) uint64 {
	const rejected = 1
	for len(partial) > 0 {
		n, kind, size := protowire.ConsumeTag(partial)
		if size < 0 {
			return 0
		}
		if n == rejected && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(partial[size:])
			return v
		}
		rest := protowire.ConsumeFieldValue(n, kind, partial[size:])
		if rest < 0 {
			return 0
		}
		partial = partial[size+rest:]
	}
	return 0
}

// A Resource is the process that telemetry is about. Its attributes have the names of the semantic conventions.
type Resource struct {
	Host    string
	Command string
	Program string // the base name of its file; empty if unknown
	PID     int    // 0 for all processes of the name
	Started time.Time
	Labels  []Label
}

// SchemaURL is the version of the semantic conventions that the names are from.
const SchemaURL = "https://opentelemetry.io/schemas/1.37.0"

// Put adds the attributes to a map.
func (r Resource) Put(to pcommon.Map) {
	to.PutStr("service.name", r.Command)
	if r.Host != "" {
		to.PutStr("host.name", r.Host)
	}
	instance := r.Host
	if r.PID > 0 {
		instance = fmt.Sprintf("%s/%d", r.Host, r.PID)
		to.PutInt("process.pid", int64(r.PID))
		if !r.Started.IsZero() {
			to.PutStr("process.creation.time", r.Started.UTC().Format(time.RFC3339Nano))
		}
	}
	to.PutStr("service.instance.id", instance)
	if r.Program != "" {
		to.PutStr("process.executable.name", r.Program)
	}
	for _, l := range r.Labels {
		to.PutStr(l.Name, l.Value)
	}
}

// Unsure is true for an error after which the server may have what was sent.
func Unsure(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
