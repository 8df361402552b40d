// Package push sends encoded messages to servers: Pyroscope, Parca, and all that speak OTLP.
package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
)

// A Transport is how a message travels.
type Transport int

// The transports.
const (
	Connect  Transport = iota // the Connect protocol, compressed
	GRPC                      // gRPC, not compressed: profiles are already
	GzipGRPC                  // gRPC, compressed
	HTTP                      // a POST of the message, compressed
)

// A Procedure is what a message is sent to.
type Procedure struct {
	Transport Transport
	Path      string
}

// A Client sends messages to one procedure of one server.
type Client struct {
	procedure Procedure
	url       string
	header    http.Header
	http      *http.Client
	rpc       *connect.Client[message, message]
}

// New prepares to send to the server at base, "http://host:4040". Each request also carries header.
func New(p Procedure, base string, header http.Header) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is no address of a server: give one like http://localhost:4040", base)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: 5 * time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second,
	}
	options := []connect.ClientOption{connect.WithCodec(codec{})}
	if p.Transport == Connect || p.Transport == GzipGRPC {
		options = append(options, connect.WithSendGzip())
	}
	if p.Transport == GRPC || p.Transport == GzipGRPC {
		options = append(options, connect.WithGRPC())
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	c := &Client{procedure: p, url: base, header: header, http: &http.Client{Transport: transport}}
	c.rpc = connect.NewClient[message, message](c.http, c.endpoint(), options...)
	return c, nil
}

func (c *Client) endpoint() string { return strings.TrimSuffix(c.url, "/") + c.procedure.Path }

// Send sends a message and returns the answer.
func (c *Client) Send(ctx context.Context, body []byte) ([]byte, error) {
	if c.procedure.Transport == HTTP {
		return c.post(ctx, body)
	}
	m := message(body)
	request := connect.NewRequest(&m)
	for name, values := range c.header {
		request.Header()[name] = values
	}
	answer, err := c.rpc.CallUnary(ctx, request)
	if err == nil {
		return *answer.Msg, nil
	}
	var failed *connect.Error
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("send to %s: it answers %q", c.url, failed.Message())
	}
	return nil, fmt.Errorf("send to %s: %w", c.url, err)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

func (c *Client) post(ctx context.Context, body []byte) ([]byte, error) {
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	if _, err := gz.Write(body); err != nil {
		return nil, fmt.Errorf("compress what is sent: %w", err)
	}
	if err := gz.Close(); err != nil {
		return nil, fmt.Errorf("compress what is sent: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint(), &packed)
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", c.url, err)
	}
	for name, values := range c.header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err) // which names the address
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("send to %s: read its answer: %w", c.url, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("send to %s: it answers %s%s", c.endpoint(), response.Status, reason(answer))
	}
	return answer, nil
}

// reason is the message of a google.rpc.Status, as OTLP servers answer; nothing for other answers.
func reason(answer []byte) string {
	const statusMessage = 2
	if text := field(answer, statusMessage); len(text) > 0 {
		return fmt.Sprintf(": %q", text)
	}
	return ""
}

// field is a field of bytes in a message; nothing where there is none, or no message.
func field(m []byte, number protowire.Number) (value []byte) {
	for len(m) > 0 {
		n, kind, size := protowire.ConsumeTag(m)
		if size < 0 {
			return nil
		}
		rest := protowire.ConsumeFieldValue(n, kind, m[size:])
		if rest < 0 {
			return nil
		}
		if n == number && kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(m[size:])
		}
		m = m[size+rest:]
	}
	return value
}

// A message is encoded as protocol buffers already.
type message []byte

// codec passes messages as they are.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(m any) ([]byte, error) {
	if m, ok := m.(*message); ok {
		return *m, nil
	}
	return nil, fmt.Errorf("%T is not a message", m)
}

func (codec) Unmarshal(data []byte, m any) error {
	if m, ok := m.(*message); ok {
		*m = bytes.Clone(data)
	}
	return nil
}
