package cli

import (
	"net"
	"strings"
	"testing"
)

func TestListenSaysWhatIsWrong(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for address, want := range map[string]string{
		"nonsense":           "is no address to listen on: give HOST:PORT",
		"127.0.0.1:nonsense": "is no address of this machine",
		"192.0.2.1:0":        "cannot listen on 192.0.2.1:0: cannot assign requested address; name a free address with --at",
		used.Addr().String(): "address already in use",
	} {
		listener, err := Listen("at", address)
		if err == nil {
			listener.Close()
			t.Errorf("%s: it listens", address)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "tcp") {
			t.Errorf("%s: %q lacks %q", address, got, want)
		}
	}
}
