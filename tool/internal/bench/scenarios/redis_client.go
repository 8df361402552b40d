package scenarios

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/runner"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A redisServer is a running redis-server and the tool's connection to it.
type redisServer struct {
	port   int
	client *redis.Client
}

// quietRedis discards the log of the client library: the returned error already reports the failure.
type quietRedis struct{}

// Printf drops the line.
func (quietRedis) Printf(context.Context, string, ...any) {}

// start starts redis-server on a free loopback port.
func (r *redisServer) start(ctx context.Context, v *runner.Visit) (err error) {
	redis.SetLogger(quietRedis{})
	if r.port, err = v.FreePort(); err != nil {
		return err
	}
	err = v.Start(ctx, runner.ServerSpec{
		Name: "redis-server", Path: v.Paths["redis-server"], Ready: r.ping, ReadyLimit: 60 * time.Second,
		Args: []string{"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--daemonize", "no", "--dir", filepath.Clean(v.Dir), "--logfile", ""},
	})
	if err == nil {
		r.client = r.connect(1)
	}
	return err
}

// connect creates a client with the given number of connections.
func (r *redisServer) connect(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: r.address(), Protocol: 2, PoolSize: connections, MaxRetries: -1,
		DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (r *redisServer) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// ping is the probe of a server that may not listen yet, which the client library would log.
func (r *redisServer) ping(ctx context.Context) error {
	return ask(ctx, r.address(), "PING\r\n", "+PONG")
}

// ask connects, sends a line, and returns an error unless the answer begins with the given prefix.
func ask(ctx context.Context, address, line, want string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(reply, want) {
		err = fmt.Errorf("%q was answered by %q", strings.TrimSpace(line), reply)
	}
	return err
}

// info is a number of INFO.
func (r *redisServer) info(ctx context.Context, section, name string) (float64, error) {
	text, err := r.client.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis-server for INFO %s: %w", section, err)
	}
	return infoNumber(text, name)
}

func infoNumber(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("INFO has no line " + name)
}

// redisKey is the name that redis-benchmark gives to its i-th key.
func redisKey(i int) string { return fmt.Sprintf("key:%012d", i) }

// put writes values of size bytes to keys, pipelined.
func (r *redisServer) put(ctx context.Context, keys []int, size int) error {
	value := strings.Repeat("x", size)
	return r.pipelined(ctx, keys, func(p redis.Pipeliner, i int) { p.Set(ctx, redisKey(i), value, 0) })
}

// remove deletes keys, pipelined.
func (r *redisServer) remove(ctx context.Context, keys []int) error {
	return r.pipelined(ctx, keys, func(p redis.Pipeliner, i int) { p.Del(ctx, redisKey(i)) })
}

func (r *redisServer) pipelined(ctx context.Context, keys []int, command func(redis.Pipeliner, int)) error {
	const batch = 128
	for len(keys) > 0 {
		n := min(batch, len(keys))
		p := r.client.Pipeline()
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
