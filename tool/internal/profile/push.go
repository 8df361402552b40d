package profile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
)

// A PushLabel is a name and a value that identify a series.
type PushLabel struct{ Name, Value string }

// A PushSeries is one profile in pprof's compressed format, with the labels of its process.
type PushSeries struct {
	Labels  []PushLabel
	Profile []byte
}

// A PushServer is where profiles go.
type PushServer struct {
	client *connect.Client[message, nothing]
	encode func([]PushSeries) message
	header http.Header
	url    string
}

// PushProtocols are the names that New knows.
var PushProtocols = []string{"pyroscope", "parca"}

// procedures by protocol.
var procedures = map[string]string{
	"pyroscope": "/push.v1.PusherService/Push",
	"parca":     "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
}

// NewPushServer prepares to send to the server at base, "http://host:4040". Each request carries header besides.
func NewPushServer(protocol, base string, header http.Header) (*PushServer, error) {
	procedure, ok := procedures[protocol]
	if !ok {
		return nil, fmt.Errorf("there is no protocol %q: choose %s", protocol, strings.Join(PushProtocols, " or "))
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is no address of a server: give one like http://localhost:4040", base)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: 5 * time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second,
	}
	options := []connect.ClientOption{connect.WithCodec(codec{}), connect.WithSendGzip()}
	s := &PushServer{header: header, url: base, encode: encodePyroscope}
	if protocol == "parca" {
		s.encode = encodeParca
		options = []connect.ClientOption{connect.WithCodec(codec{}), connect.WithGRPC()} // profiles are compressed already
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	s.client = connect.NewClient[message, nothing](&http.Client{Transport: transport}, strings.TrimSuffix(base, "/")+procedure, options...)
	return s, nil
}

// Send sends the series in one request.
func (s *PushServer) Send(ctx context.Context, series []PushSeries) error {
	m := s.encode(series)
	request := connect.NewRequest(&m)
	for name, values := range s.header {
		request.Header()[name] = values
	}
	_, err := s.client.CallUnary(ctx, request)
	if err == nil {
		return nil
	}
	var failed *connect.Error
	if errors.As(err, &failed) {
		return fmt.Errorf("send profiles to %s: it answers %q", s.url, failed.Message())
	}
	return fmt.Errorf("send profiles to %s: %w", s.url, err)
}

// A message is encoded as protocol buffers already; nothing is an empty one.
type (
	message []byte
	nothing struct{}
)

// codec hands over what is encoded already.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(m any) ([]byte, error) {
	if m, ok := m.(*message); ok {
		return *m, nil
	}
	return nil, fmt.Errorf("%T is not a message", m)
}

func (codec) Unmarshal([]byte, any) error { return nil } // answers hold nothing of interest

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
func encodePyroscope(all []PushSeries) (m message) {
	const requestSeries = 1
	for _, s := range all {
		var body []byte
		for _, l := range s.Labels {
			body = nested(body, seriesLabels, encodeLabel(l))
		}
		m = nested(m, requestSeries, nested(body, seriesSamples, nested(nil, sampleProfile, s.Profile)))
	}
	return m
}

// encodeParca writes parca.profilestore.v1alpha1.WriteRawRequest: labels are a message of their own.
func encodeParca(all []PushSeries) (m message) {
	const requestSeries, setLabels = 2, 1
	for _, s := range all {
		var set []byte
		for _, l := range s.Labels {
			set = nested(set, setLabels, encodeLabel(l))
		}
		body := nested(nil, seriesLabels, set)
		m = nested(m, requestSeries, nested(body, seriesSamples, nested(nil, sampleProfile, s.Profile)))
	}
	return m
}
