package profile

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"connectrpc.com/connect"
	pprofile "github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

type stub struct{ got chan *pushv1.PushRequest }

func (s stub) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	s.got <- r.Msg
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// The command as it is called, from a process that runs to a server of Pyroscope's own code.
func TestTheCommandReachesPyroscope(t *testing.T) {
	busyProgram(t)
	s := stub{make(chan *pushv1.PushRequest, 100)}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(s))
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	var errs bytes.Buffer
	go func() {
		ended <- cli.Main(ctx, cli.Env{Stdout: &errs, Stderr: &errs}, []cli.Command{Agent}, strings.Fields("profile agent --every 1s --command ^busy$ --label team=a --rate 16KiB --cpu-share 1 --push "+server.URL))
	}()
	<-s.got
	request := <-s.got
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("code %d: %s", code, errs.String())
	}
	p, err := pprofile.ParseData(request.Series[0].Samples[0].RawProfile)
	if err != nil || len(p.Sample) == 0 {
		t.Fatalf("%v, %v", p, err)
	}
	if labels := request.Series[0].Labels; labels[len(labels)-1].Value != "a" {
		t.Errorf("labels %v", labels)
	}
	if text := errs.String(); strings.Count(text, "\n") != 1 {
		t.Errorf("it complains: %s", text)
	}
}
