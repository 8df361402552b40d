package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

// A database is a server whose data folder is made and filled once, without any allocator; each visit starts on a copy
// and sends it transactions, workload by workload and with more and more connections.
type database struct {
	program string
	owner   func() string // of the data, as the server refuses root
	becomes bool          // the server must be started as the owner; else it becomes that by itself
	args    func(dir, data string) []string
	limit   time.Duration  // until it is ready
	grace   time.Duration  // until it has ended
	signal  syscall.Signal // that asks it to end
	tree    bool
	create  func(ctx context.Context, shared *runner.Shared, data string) error // makes an empty data folder
	ready   func(ctx context.Context, shared *runner.Shared, dir string) error
	fill    func(ctx context.Context, shared *runner.Shared) error // of the server in the shared folder

	connections string // the parameter that lists numbers of connections, which is also their word
	warmUp      func(ctx context.Context, v *runner.Visit) error
	load        func(ctx context.Context, v *runner.Visit, workload string, connections int, load *runner.Load) (transactionReport, error)
}

// A transactionReport holds the transactions and latencies that a load generator measured.
type transactionReport struct {
	done, perSecond float64
	quantile        func(share float64) float64 // of the latencies, ms
}

const (
	transactions = "transactions"
	cpuPerTrans  = "server CPU a transaction"
)

// quantiles are the rows of a step's latencies.
var quantiles = []struct {
	metric string
	share  float64
}{{runner.MetricP50, 0.5}, {runner.MetricP99, 0.99}, {runner.MetricP999, 0.999}}

// phases are those of the benchmark: a step for each workload and number of connections, on one server.
func (d database) phases(values runner.Values) []runner.Phase {
	list := []runner.Phase{runner.StartPhase(d.start), runner.WarmUp(d.warmUp)}
	rows := append([]result.Row{runner.HigherRow(transactions, "1/s"), runner.LowerRow(cpuPerTrans, "ms")}, runner.LoadMemory(d.tree)...)
	rows = append(rows, runner.ShareRow())
	for _, q := range quantiles {
		rows = append(rows, runner.LowerRow(q.metric, "ms"))
	}
	for _, workload := range values.Words("workloads") {
		for _, n := range values.Numbers(d.connections) {
			list = append(list, runner.Phase{
				Name: fmt.Sprintf("%s, %d %s", workload, n, d.connections), Rows: rows,
				Do: func(ctx context.Context, v *runner.Visit) error { return d.step(ctx, v, workload, n) },
			})
		}
	}
	if d.tree {
		return append(list, runner.IdlePhase(), runner.WholeTreePhase())
	}
	return append(list, runner.IdlePhase(), runner.WholePhase())
}

// step sends one workload and records its rows.
func (d database) step(ctx context.Context, v *runner.Visit, workload string, connections int) error {
	var report transactionReport
	seen, err := v.WatchShare(ctx, func(ctx context.Context, load *runner.Load) (err error) {
		report, err = d.load(ctx, v, workload, connections, load)
		return err
	})
	if err != nil {
		return err
	}
	v.Set(transactions, report.perSecond)
	v.Set(cpuPerTrans, seen.CPUSeconds/report.done*1e3)
	v.SetLoadMemory(seen)
	for _, q := range quantiles {
		v.Set(q.metric, report.quantile(q.share))
	}
	v.Trace(result.MetricCurve, "ms", measure.Curve(int(report.done), report.quantile))
	return nil
}

// stepSeconds is the length of a step in seconds.
func stepSeconds(v *runner.Visit) int { return int(max(1, v.Values.Duration("time").Seconds())) }

// user is the name of the user that runs the server; if it is empty, the tool's own user does.
func (d database) user() string {
	if d.becomes {
		return d.owner()
	}
	return ""
}

// prepare creates and fills the data folder that each visit copies.
func (d database) prepare(ctx context.Context, shared *runner.Shared) error {
	data := filepath.Join(shared.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := runner.Give(shared.Dir, d.owner()); err != nil {
		return err
	}
	if err := d.create(ctx, shared, data); err != nil {
		return err
	}
	var credential *syscall.Credential
	if d.becomes {
		var err error
		if credential, err = runner.Credential(d.owner()); err != nil {
			return err
		}
	}
	server, err := measure.Start(measure.Spec{
		Path: shared.Paths[d.program], Args: d.args(shared.Dir, data), Env: measure.Clean(shared.Environ), Dir: shared.Dir,
		Log: filepath.Join(shared.Dir, d.program+".log"), Credential: credential,
	})
	if err != nil {
		return err
	}
	defer server.StopBy(d.signal, d.grace)
	if err := server.WaitReady(ctx, d.program, d.limit, func(ctx context.Context) error { return d.ready(ctx, shared, shared.Dir) }); err != nil {
		return err
	}
	return d.fill(ctx, shared)
}

// start starts the server of a visit on a copy of the prepared folder.
func (d database) start(ctx context.Context, v *runner.Visit) error {
	data := filepath.Join(v.Dir, "data")
	if _, err := v.Tool(ctx, "/bin/cp", "-a", filepath.Join(v.Shared.Dir, "data"), data); err != nil {
		return err
	}
	if err := runner.Give(v.Dir, d.owner()); err != nil {
		return err
	}
	return v.Start(ctx, runner.ServerSpec{
		Name: d.program, Path: v.Paths[d.program], Args: d.args(v.Dir, data), User: d.user(), Tree: d.tree,
		Ready: func(ctx context.Context) error { return d.ready(ctx, v.Shared, v.Dir) }, ReadyLimit: d.limit, Grace: d.grace, Signal: d.signal,
	})
}
