package profile

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/push"

	"connectrpc.com/connect"
	pprofile "github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

var pushedSample = PushSeries{
	Profile:  heap(3, 5),
	Resource: push.Resource{Host: "a", Command: "redis", PID: 7, Labels: []push.Label{{Name: "team", Value: "b"}}},
}

// isSample checks that a file is the profile of pushedSample.
func isSample(t *testing.T, file []byte) {
	t.Helper()
	p, err := pprofile.ParseData(file)
	if err != nil || sum(p, InUseSpace) != 6*1024 {
		t.Errorf("it got %v (%v)", p, err)
	}
}

// pyroscope is a server made of Pyroscope's published code.
type pyroscope struct {
	got  *pushv1.PushRequest
	auth string
}

func (p *pyroscope) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	p.got, p.auth = r.Msg, r.Header().Get("Authorization")
	if p.auth == "" {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("who are you"))
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func TestPyroscopeReadsWhatIsSent(t *testing.T) {
	stub := &pyroscope{}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(stub))
	server := httptest.NewServer(mux)
	defer server.Close()
	s, err := NewPushServer("pyroscope", server.URL, http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(context.Background(), pushedSample); err != nil {
		t.Fatal(err)
	}
	if len(stub.got.Series) != 1 || stub.auth != "Bearer x" {
		t.Fatalf("it got %v", stub.got)
	}
	first := stub.got.Series[0]
	if len(first.Labels) != 6 || first.Labels[2].Name != "service_name" || first.Labels[2].Value != "redis" || first.Labels[5].Value != "b" {
		t.Errorf("it got %v", first)
	}
	isSample(t, first.Samples[0].RawProfile)
	if s, err = NewPushServer("pyroscope", server.URL, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(context.Background(), pushedSample); err == nil || !strings.Contains(err.Error(), `it answers "who are you"`) {
		t.Errorf("refused, it says %v", err)
	}
}

// parcaFile describes Parca's messages, as its published profilestore.proto does.
func parcaFile(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, many bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if many {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if of != "" {
			f.TypeName = proto.String(".parca.profilestore.v1alpha1." + of)
		}
		return f
	}
	const text, raw, flag, message = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES,
		descriptorpb.FieldDescriptorProto_TYPE_BOOL, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	m := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("profilestore.proto"), Package: proto.String("parca.profilestore.v1alpha1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			m("WriteRawRequest", field("tenant", 1, text, "", false), field("series", 2, message, "RawProfileSeries", true), field("normalized", 3, flag, "", false)),
			m("WriteRawResponse"),
			m("RawProfileSeries", field("labels", 1, message, "LabelSet", false), field("samples", 2, message, "RawSample", true)),
			m("LabelSet", field("labels", 1, message, "Label", true)),
			m("Label", field("name", 1, text, "", false), field("value", 2, text, "", false)),
			m("RawSample", field("raw_profile", 1, raw, "", false)),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// The server is grpc-go, an implementation of the protocol that the client does not use.
func TestParcaReadsWhatIsSent(t *testing.T) {
	file := parcaFile(t)
	request, response := file.Messages().ByName("WriteRawRequest"), file.Messages().ByName("WriteRawResponse")
	var got string
	var raw []byte
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "parca.profilestore.v1alpha1.ProfileStoreService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "WriteRaw", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := dynamicpb.NewMessage(request)
			if err := decode(m); err != nil {
				return nil, err
			}
			if len(m.GetUnknown()) > 0 {
				return nil, errors.New("unknown fields")
			}
			series := m.Get(request.Fields().ByName("series")).List()
			for i := range series.Len() {
				m := series.Get(i).Message()
				got += m.Interface().(*dynamicpb.Message).String() + "\n"
				sample := m.Get(m.Descriptor().Fields().ByName("samples")).List().Get(0).Message()
				raw = sample.Get(sample.Descriptor().Fields().ByName("raw_profile")).Bytes()
			}
			return dynamicpb.NewMessage(response), nil
		}}},
	}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()
	s, err := NewPushServer("parca", "http://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(context.Background(), pushedSample); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"service_name"`, `"redis"`, `"team"`} {
		if !strings.Contains(strings.ReplaceAll(got, ": ", ":"), want) {
			t.Errorf("it got %s, without %s", got, want)
		}
	}
	isSample(t, raw)
}

func TestWrongAddressesAreReported(t *testing.T) {
	for _, c := range [][2]string{{"pyroscope", "localhost:4040"}, {"parca", ""}, {"jaeger", "http://localhost"}} {
		if _, err := NewPushServer(c[0], c[1], nil); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
	s, err := NewPushServer("pyroscope", "http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(context.Background(), pushedSample); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("nobody there: %v", err)
	}
}
