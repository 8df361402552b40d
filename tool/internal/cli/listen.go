package cli

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen listens on HOST:PORT, which the user gave with an option.
func Listen(option, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, Usagef("--%s %q is no address to listen on: give HOST:PORT, as in :9778 or 127.0.0.1:0 for any free port", option, address)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	var errno syscall.Errno
	switch {
	case err == nil:
		return listener, nil
	case errors.As(err, &errno):
		return nil, fmt.Errorf("cannot listen on %s: %w; name a free address with --%s", address, errno, option)
	}
	return nil, Usagef("--%s %q is no address of this machine: give HOST:PORT, as in :9778", option, address)
}
