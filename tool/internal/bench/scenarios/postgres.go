package scenarios

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var postgres = runner.Scenario{
	Name:    "postgres",
	Summary: "compare allocators under PostgreSQL with pgbench",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs: []runner.Need{
		{Program: "postgres", Package: "postgresql"}, {Program: "initdb", Package: "postgresql"},
		{Program: "pgbench", Package: "postgresql-contrib"}, {Program: "pg_isready", Package: "postgresql-client"},
	},
	Params: []runner.Param{
		{Name: "clients", Kind: runner.Numbers, Full: "8,32,128", Quick: "16", Least: 1, Help: "concurrent connections, step by step on one server; each is a process"},
		{Name: "workloads", Kind: runner.Words, Full: "select-only,tpcb-like", OneOf: []string{"select-only", "simple-update", "tpcb-like"}, Help: "pgbench's scripts"},
		{Name: "time", Kind: runner.Duration, Full: "10s", Quick: "3s", Long: "60s", Help: "of each step"},
		{Name: "scale", Kind: runner.Number, Full: "5", Quick: "2", Long: "50", Least: 1, Help: "hundred thousands of accounts"},
		runner.SettleParam(),
	},
	Prepare: postgresServer.prepare,
	Phases:  func(values runner.Values) []runner.Phase { return postgresServer.phases(values) },
}

// postgresUser is the user that runs the server, which refuses root.
const postgresUser = "postgres"

func postgresArgs(dir, data string) []string {
	return []string{"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=600", "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "shared_buffers=128MB"}
}

// postgresServer is filled by pgbench. It consists of a process for each connection.
var postgresServer = database{
	program: "postgres", owner: func() string { return postgresUser }, becomes: true, args: postgresArgs, limit: 120 * time.Second, grace: 30 * time.Second,
	signal: syscall.SIGINT, tree: true, ready: postgresReady,
	create: func(ctx context.Context, shared *runner.Shared, data string) error {
		return shared.ToolAs(ctx, postgresUser, shared.Paths["initdb"], "-D", data, "-A", "trust", "-U", "granary", "--no-sync")
	},
	fill: func(ctx context.Context, shared *runner.Shared) error {
		_, err := shared.Tool(ctx, shared.Paths["pgbench"], "-h", shared.Dir, "-U", "granary", "-i", "-q", "-s", shared.Values["scale"], "postgres")
		return err
	},
	connections: "clients", load: postgresLoad,
	warmUp: func(ctx context.Context, v *runner.Visit) error {
		_, err := v.Tool(ctx, v.Paths["pgbench"], "-h", v.Dir, "-U", "granary", "-n", "-S", "-c", "4", "-T", "1", "postgres")
		return err
	},
}

func postgresReady(ctx context.Context, shared *runner.Shared, dir string) error {
	_, err := shared.Tool(ctx, shared.Paths["pg_isready"], "-h", dir, "-d", "postgres", "-U", "granary")
	return err
}

func postgresLoad(ctx context.Context, v *runner.Visit, workload string, clients int, load *runner.Load) (transactionReport, error) {
	var r transactionReport
	logs := filepath.Join(v.Dir, "pgbench")
	text, err := v.Tool(ctx, v.Paths["pgbench"], "-h", v.Dir, "-U", "granary", "-n", "-M", "prepared", "-b", workload,
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(2, clients)), "-T", strconv.Itoa(stepSeconds(v)),
		"--random-seed", strconv.Itoa(v.Round+1), "-l", "--log-prefix", logs, "postgres")
	load.End()
	if err != nil {
		return r, err
	}
	if r.done, r.perSecond, err = parsePgbench(text); err != nil {
		return r, err
	}
	latencies, err := pgbenchLatencies(logs)
	r.quantile = func(share float64) float64 { return result.Quantile(latencies, share) }
	return r, err
}

var (
	pgbenchDone = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	pgbenchRate = regexp.MustCompile(`tps = ([0-9.]+) \(without`)
)

func parsePgbench(text string) (done, perSecond float64, err error) {
	count, rate := pgbenchDone.FindStringSubmatch(text), pgbenchRate.FindStringSubmatch(text)
	if count == nil || rate == nil {
		return 0, 0, fmt.Errorf("pgbench printed no result; it printed: %.300q", text)
	}
	done, _ = strconv.ParseFloat(count[1], 64) // the pattern holds digits only
	perSecond, _ = strconv.ParseFloat(rate[1], 64)
	return done, perSecond, nil
}

// pgbenchLatencies reads and removes the logs of pgbench: a line a transaction, whose third word is its
// latency in microseconds. They are returned in milliseconds.
func pgbenchLatencies(prefix string) ([]float64, error) {
	paths, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, fmt.Errorf("find the logs of pgbench: %w", err)
	}
	var out []float64
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the log of pgbench: %w", err)
		}
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			words := strings.Fields(scanner.Text())
			if len(words) < 3 {
				continue
			}
			if us, err := strconv.ParseFloat(words[2], 64); err == nil {
				out = append(out, us/1e3)
			}
		}
		file.Close()
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the log of pgbench: %w", err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("pgbench left no log of transactions at %s.*", prefix)
	}
	slices.Sort(out)
	return out, nil
}
