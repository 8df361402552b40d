// Package redis measures allocators under a real redis-server: redis-benchmark loads it, and what the
// benchmark cannot say is read from INFO and /proc.
package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"granary/tool/internal/allocators"
	"granary/tool/internal/bench/run"
	"granary/tool/internal/preload"
	"granary/tool/internal/procfs"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	readyLimit = 10 * time.Second
	stopGrace  = 5 * time.Second
)

// Tools are the programs of Redis on this machine.
type Tools struct{ Server, Benchmark string }

// FindTools finds redis-server and redis-benchmark.
func FindTools() (Tools, error) {
	var t Tools
	for _, want := range []struct {
		path *string
		name string
	}{{&t.Server, "redis-server"}, {&t.Benchmark, "redis-benchmark"}} {
		// Not resolved further: redis-server is a link to a program that goes by the name it is called.
		path, err := exec.LookPath(want.name)
		if err != nil {
			return t, fmt.Errorf("%s is not installed; install the packages redis-server and redis-tools", want.name)
		}
		*want.path = path
	}
	return t, nil
}

// A Server is a redis-server under one contender, on a loopback port, with a temporary folder.
type Server struct {
	process *run.Process
	proc    procfs.FS
	dir     string
	port    int
	client  *client.Client
}

// Start starts a server under the contender and proves that its malloc is the contender's.
func Start(ctx context.Context, tools Tools, proc procfs.FS, environ []string, c allocators.Contender) (*Server, error) {
	if err := preload.Check(tools.Server, c.Path, preload.CurrentCredentials(), os.Getenv("PATH")); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "granary-redis-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for redis-server: %w", err)
	}
	s := &Server{proc: proc, dir: dir}
	if err := s.start(ctx, tools, environ, c); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, tools Tools, environ []string, c allocators.Contender) (err error) {
	if s.port, err = run.FreePort(); err != nil {
		return err
	}
	// Debian's redis-server is linked to libjemalloc. To run it under glibc, libc.so.6 itself is
	// preloaded: the loader already has it, and only moves it before libjemalloc in the order of
	// lookup, so that every malloc in the process is glibc's. verify reads that from the process.
	variables := append(c.Variables(true), "LD_BIND_NOW=1")
	s.process, err = run.Start(run.Spec{
		Path: tools.Server, Env: append(run.Clean(environ), variables...), Dir: s.dir,
		Log: filepath.Join(s.dir, "log"),
		Args: []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--daemonize", "no", "--dir", s.dir, "--logfile", ""},
	})
	if err != nil {
		return err
	}
	if err := s.process.WaitReady(ctx, "redis-server", readyLimit, s.ping); err != nil {
		return err
	}
	s.client = client.NewClient(&client.Options{
		Addr: s.address(), Protocol: 2, PoolSize: 1, MaxRetries: -1,
		DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return s.verify(c)
}

func (s *Server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// ping is the probe of a server that may not listen yet, which the client library would log.
func (s *Server) ping(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && reply != "+PONG\r\n" {
		err = fmt.Errorf("PING was answered by %q", reply)
	}
	return err
}

// verify asks the loader's own tables in the running server whose malloc and free it calls.
func (s *Server) verify(c allocators.Contender) error {
	for _, symbol := range []string{"malloc", "free"} {
		owner, err := preload.Owner(s.proc, s.process.PID(), symbol)
		if err != nil {
			return fmt.Errorf("cannot see which allocator took effect: %w", err)
		}
		if owner != c.Path {
			return fmt.Errorf("%s did not take effect: redis-server calls %s of %s; check that the library defines it", c.Name, symbol, owner)
		}
	}
	return nil
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() {
	if s.client != nil {
		_ = s.client.Close() // the connection ends with the server anyway
	}
	if s.process != nil {
		s.process.Stop(stopGrace)
	}
	_ = os.RemoveAll(s.dir) // a temporary folder
}

// explain adds the server's last words to an error that its death caused.
func (s *Server) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.process.Done():
		return s.process.Died("redis-server")
	case <-time.After(100 * time.Millisecond):
		return err
	}
}

// UsedMemory is what Redis believes to have allocated, by INFO.
func (s *Server) UsedMemory(ctx context.Context) (float64, error) {
	text, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis-server for INFO memory: %w", err)
	}
	return infoNumber(text, "used_memory")
}

func infoNumber(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("INFO memory has no line " + name)
}

// key is the name that redis-benchmark gives to its i-th key.
func key(i int) string { return fmt.Sprintf("key:%012d", i) }

// Put writes values of size bytes to keys, pipelined.
func (s *Server) Put(ctx context.Context, keys []int, size int) error {
	value := strings.Repeat("x", size)
	return s.pipelined(ctx, keys, func(p client.Pipeliner, i int) { p.Set(ctx, key(i), value, 0) })
}

// Delete removes keys, pipelined.
func (s *Server) Delete(ctx context.Context, keys []int) error {
	return s.pipelined(ctx, keys, func(p client.Pipeliner, i int) { p.Del(ctx, key(i)) })
}

func (s *Server) pipelined(ctx context.Context, keys []int, command func(client.Pipeliner, int)) error {
	const batch = 128
	for len(keys) > 0 {
		n := min(batch, len(keys))
		p := s.client.Pipeline()
		for _, i := range keys[:n] {
			command(p, i)
		}
		if _, err := p.Exec(ctx); err != nil {
			return fmt.Errorf("send commands to redis-server: %w", err)
		}
		keys = keys[n:]
	}
	return nil
}

// Flush deletes everything.
func (s *Server) Flush(ctx context.Context) error {
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush redis-server: %w", err)
	}
	return nil
}
