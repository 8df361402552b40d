package profile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/push"

	pprofile "github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// A PushLabel is a name and a value that identify a series.
type PushLabel = push.Label

// A PushSeries is one profile with the process it is of.
type PushSeries struct {
	Profile  *pprofile.Profile
	Resource push.Resource
}

// labels are what Pyroscope and Parca identify a series by. Their names have no dots.
func (s PushSeries) labels() []PushLabel {
	r := s.Resource
	labels := []PushLabel{{Name: "__name__", Value: "memory"}, {Name: "__delta__", Value: "false"},
		{Name: "service_name", Value: r.Command}, {Name: "pid", Value: fmt.Sprint(r.PID)}, {Name: "instance", Value: r.Host}}
	for _, l := range r.Labels {
		labels = append(labels, PushLabel{Name: strings.ReplaceAll(l.Name, ".", "_"), Value: l.Value})
	}
	return labels
}

// A PushServer is where profiles go.
type PushServer struct {
	send   func(context.Context, []byte) error
	encode func(labels []PushLabel, file []byte) []byte // nil for OTLP
}

// PushProtocols are the names that NewPushServer knows.
var PushProtocols = slices.Concat([]string{"pyroscope", "parca"}, push.OTLP)

// pprofServers take pprof's files in messages of their own.
var pprofServers = map[string]struct {
	push.Procedure
	encode func(labels []PushLabel, file []byte) []byte
}{
	"pyroscope": {push.Procedure{Transport: push.Connect, Path: "/push.v1.PusherService/Push"}, encodePyroscope},
	"parca":     {push.Procedure{Transport: push.GRPC, Path: "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"}, encodeParca},
}

// NewPushServer prepares to send to the server at base, "http://host:4040". Each request also carries header.
func NewPushServer(protocol, base string, header http.Header) (*PushServer, error) {
	if slices.Contains(push.OTLP, protocol) {
		collector, err := push.NewCollector(protocol, push.Profiles, base, header)
		if err != nil {
			return nil, err
		}
		return &PushServer{send: collector.Send}, nil
	}
	p, ok := pprofServers[protocol]
	if !ok {
		return nil, fmt.Errorf("there is no protocol %q: choose %s", protocol, strings.Join(PushProtocols, ", "))
	}
	client, err := push.New(p.Procedure, base, header)
	if err != nil {
		return nil, err
	}
	return &PushServer{encode: p.encode, send: func(ctx context.Context, m []byte) error {
		_, err := client.Send(ctx, m) // whose answer holds nothing of interest
		return err
	}}, nil
}

// Send sends a profile.
func (s *PushServer) Send(ctx context.Context, series PushSeries) error {
	var m []byte
	var err error
	if s.encode == nil {
		m, err = encodeOTLP(series)
	} else {
		var file strings.Builder
		err = series.Profile.Write(&file)
		m = s.encode(series.labels(), []byte(file.String()))
	}
	if err != nil {
		return fmt.Errorf("encode the profile: %w", err)
	}
	return s.send(ctx, m)
}

// The fields of the messages have these numbers with both.
const (
	labelName, labelValue       = 1, 2
	seriesLabels, seriesSamples = 1, 2
	sampleProfile               = 1
)

func nested(to []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), body)
}

func encodeLabel(l PushLabel) []byte {
	return nested(nested(nil, labelName, []byte(l.Name)), labelValue, []byte(l.Value))
}

// encodePyroscope writes push.v1.PushRequest: labels are fields of the series.
func encodePyroscope(labels []PushLabel, file []byte) []byte {
	const requestSeries = 1
	var body []byte
	for _, l := range labels {
		body = nested(body, seriesLabels, encodeLabel(l))
	}
	return nested(nil, requestSeries, nested(body, seriesSamples, nested(nil, sampleProfile, file)))
}

// encodeParca writes parca.profilestore.v1alpha1.WriteRawRequest: labels are a message of their own.
func encodeParca(labels []PushLabel, file []byte) []byte {
	const requestSeries, setLabels = 2, 1
	var set []byte
	for _, l := range labels {
		set = nested(set, setLabels, encodeLabel(l))
	}
	body := nested(nil, seriesLabels, set)
	return nested(nil, requestSeries, nested(body, seriesSamples, nested(nil, sampleProfile, file)))
}
