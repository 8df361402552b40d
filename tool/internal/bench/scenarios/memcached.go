package scenarios

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var memcached = runner.Scenario{
	Name:    "memcached",
	Summary: "compare allocators under memcached with the built-in open-loop driver",
	About:   "memcached keeps values in its own slabs, so allocators differ only in the memory and time of connections.",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs:   []runner.Need{{Program: "memcached", Package: "memcached"}},
	Params: []runner.Param{
		{Name: "connections", Kind: runner.Numbers, Full: "16,64,256", Quick: "64", Least: 1, Help: "concurrent connections, one number after another"},
		{Name: "rate", Kind: runner.Number, Full: "10000", Quick: "5000", Least: 100, Help: "requests a second, every other one a write"},
		{Name: "time", Kind: runner.Duration, Full: "10s", Quick: "3s", Long: "60s", Help: "of each step"},
		{Name: "keys", Kind: runner.Number, Full: "100000", Quick: "20000", Least: 1, Help: "keys that the requests are spread over"},
		{Name: "value", Kind: runner.Number, Full: "1000", Least: 10, Help: "the largest value, in bytes"},
		runner.SettleParam(),
	},
	Phases: memcachedPhases,
}

func memcachedPhases(values runner.Values) []runner.Phase {
	var address string
	list := []runner.Phase{runner.StartPhase(func(ctx context.Context, v *runner.Visit) error {
		port, err := v.FreePort()
		if err != nil {
			return err
		}
		address = fmt.Sprintf("127.0.0.1:%d", port)
		args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0", "-m", "512", "-t", "2", "-c", "4096"}
		if os.Geteuid() == 0 {
			args = append(args, "-u", "nobody")
		}
		return v.Start(ctx, runner.ServerSpec{
			Name: "memcached", Path: v.Paths["memcached"], Args: args,
			Ready: func(ctx context.Context) error { return ask(ctx, address, "version\r\n", "VERSION") },
		})
	})}
	for _, connections := range values.Numbers("connections") {
		list = append(list, runner.Phase{
			Name: fmt.Sprintf("get and set in turn, %s/s over %d connections", values["rate"], connections),
			Rows: append(openRows(), runner.LowerRow(runner.MetricRSS, "bytes")),
			Do:   func(ctx context.Context, v *runner.Visit) error { return memcachedStep(ctx, v, address, connections) },
		})
	}
	return append(list, runner.IdlePhase(), runner.WholePhase())
}

// A memcachedClient is one connection; only one goroutine may use it at a time.
type memcachedClient struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (m *memcachedClient) set(key, value string) error {
	if _, err := fmt.Fprintf(m.conn, "set %s 0 0 %d\r\n%s\r\n", key, len(value), value); err != nil {
		return err
	}
	reply, err := m.lines.ReadString('\n')
	if err == nil && reply != "STORED\r\n" {
		err = fmt.Errorf("set was answered by %q", reply)
	}
	return err
}

func (m *memcachedClient) get(key string) error {
	if _, err := io.WriteString(m.conn, "get "+key+"\r\n"); err != nil {
		return err
	}
	for {
		reply, err := m.lines.ReadString('\n')
		if err != nil {
			return err
		}
		if reply == "END\r\n" {
			return nil
		}
		words := strings.Fields(reply)
		if len(words) != 4 || words[0] != "VALUE" {
			return fmt.Errorf("get was answered by %q", reply)
		}
		size, err := strconv.Atoi(words[3])
		if err != nil {
			return fmt.Errorf("get was answered by %q", reply)
		}
		if _, err := m.lines.Discard(size + 2); err != nil {
			return err
		}
	}
}

func memcachedStep(ctx context.Context, v *runner.Visit, address string, connections int) error {
	clients := make([]*memcachedClient, connections)
	for i := range clients {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("open connection %d to memcached: %w", i+1, err)
		}
		defer conn.Close()
		clients[i] = &memcachedClient{conn, bufio.NewReader(conn)}
	}
	keys, largest := v.Values.Number("keys"), v.Values.Number("value")
	value := strings.Repeat("v", largest)
	var outcome measure.LoadOutcome
	seen, err := v.WatchShare(ctx, func(ctx context.Context, l *runner.Load) (err error) {
		l.Begin()
		outcome, err = measure.RunLoad(ctx, measure.LoadPlan{
			Rate: float64(v.Values.Number("rate")), Duration: v.Values.Duration("time"), Connections: connections,
			Do: func(_ context.Context, c, n int) error {
				dice := rand.New(rand.NewPCG(uint64(v.Round), uint64(n)))
				key := "key" + strconv.Itoa(dice.IntN(keys))
				if n%2 == 0 {
					return clients[c].set(key, value[:1+dice.IntN(largest)])
				}
				return clients[c].get(key)
			},
		})
		l.End()
		return err
	})
	if err != nil {
		return err
	}
	recordOutcome(v, outcome)
	v.Set("server CPU a request", seen.CPUSeconds/float64(outcome.Requests)*1e6)
	v.Set(runner.MetricRSS, seen.PeakRSS)
	return nil
}
