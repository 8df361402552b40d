package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var mariadb = runner.Scenario{
	Name:    "mariadb",
	Summary: "compare allocators under MariaDB with sysbench, 16 to 4,096 threads",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs: []runner.Need{
		{Program: "mariadbd", Package: "mariadb-server"}, {Program: "mariadb-install-db", Package: "mariadb-server"},
		{Program: "mariadb-admin", Package: "mariadb-client"}, {Program: "sysbench", Package: "sysbench"},
	},
	Params: []runner.Param{
		{Name: "threads", Kind: runner.Numbers, Full: "16,64,256,1024,4096", Quick: "16,256", Least: 1, Help: "concurrent connections, step by step on one server"},
		{Name: "workloads", Kind: runner.Words, Full: "oltp_read_only,oltp_read_write", Quick: "oltp_read_only",
			OneOf: []string{"oltp_read_only", "oltp_read_write"}, Help: "sysbench's tests"},
		{Name: "time", Kind: runner.Duration, Full: "10s", Quick: "3s", Long: "60s", Help: "of each step"},
		{Name: "rows", Kind: runner.Number, Full: "100000", Long: "1000000", Least: 1000, Help: "of the table"},
		{Name: "warmup", Kind: runner.Duration, Full: "3s", Quick: "1s", Help: "of load before the first step"},
		runner.SettleParam(),
	},
	Prepare: prepareMariadb,
	Phases:  func(values runner.Values) []runner.Phase { return mariadbServer.phases(values) },
}

// mariadbUser is the user that runs the server, which refuses root.
func mariadbUser() string {
	if os.Geteuid() != 0 {
		if u, err := user.Current(); err == nil {
			return u.Username
		}
	}
	return "mysql"
}

func mariadbArgs(dir, data string) []string {
	return []string{
		"--no-defaults", "--datadir=" + data, "--tmpdir=" + data, "--user=" + mariadbUser(), "--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"),
		"--skip-networking", "--max-connections=5000", "--back-log=4500", "--max-prepared-stmt-count=1000000", "--innodb-buffer-pool-size=128M",
		"--innodb-log-file-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=off",
	}
}

// mariadbServer has a filled table.
var mariadbServer = database{
	program: "mariadbd", owner: mariadbUser, args: mariadbArgs, limit: 180 * time.Second, grace: 60 * time.Second, signal: syscall.SIGTERM,
	create: func(ctx context.Context, shared *runner.Shared, data string) error {
		_, err := shared.Tool(ctx, shared.Paths["mariadb-install-db"], "--no-defaults", "--datadir="+data, "--tmpdir="+data, "--user="+mariadbUser(),
			"--skip-test-db", "--auth-root-authentication-method=normal", "--force") // also where no host name resolves, as in a container
		return err
	},
	ready: func(ctx context.Context, shared *runner.Shared, dir string) error {
		return mariadbAdmin(ctx, shared, dir, "ping")
	},
	fill: func(ctx context.Context, shared *runner.Shared) error {
		if err := mariadbAdmin(ctx, shared, shared.Dir, "create", "sbtest"); err != nil {
			return err
		}
		_, err := shared.Tool(ctx, shared.Paths["sysbench"], append(sysbenchArgs(shared, shared.Dir), "oltp_read_only", "prepare")...)
		return err
	},
	connections: "threads", load: mariadbLoad,
	warmUp: func(ctx context.Context, v *runner.Visit) error {
		_, err := sysbench(ctx, v, v.Values.Words("workloads")[0], 16, int(max(1, v.Values.Duration("warmup").Seconds())), nil)
		return err
	},
}

func prepareMariadb(ctx context.Context, shared *runner.Shared) error {
	if err := openFiles(2*slices.Max(shared.Values.Numbers("threads")) + 1000); err != nil {
		return err
	}
	return mariadbServer.prepare(ctx, shared)
}

// openFiles raises the limit of open files so that a load generator can open its connections.
func openFiles(want int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Cur >= uint64(want) {
		return nil
	}
	limit.Cur, limit.Max = uint64(want), max(limit.Max, uint64(want))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("so many connections take %d open files, which this user may not have (%w); raise `ulimit -n` or ask for fewer threads", want, err)
	}
	return nil
}

func mariadbAdmin(ctx context.Context, shared *runner.Shared, dir string, words ...string) error {
	args := append([]string{"--no-defaults", "-S", filepath.Join(dir, "s"), "-u", "root"}, words...)
	_, err := shared.Tool(ctx, shared.Paths["mariadb-admin"], args...)
	return err
}

// sysbenchArgs are the arguments of every call. There is only one table: sysbench prepares its statements
// for each table and thread, and fails if that takes longer than 30 seconds.
func sysbenchArgs(shared *runner.Shared, dir string) []string {
	return []string{
		"--mysql-socket=" + filepath.Join(dir, "s"), "--mysql-user=root", "--tables=1", "--table-size=" + strconv.Itoa(shared.Values.Number("rows")),
		"--rand-type=uniform", "--mysql-ignore-errors=1213,1205,1020", "--histogram=on",
	}
}

// sysbench runs one test and returns its report.
func sysbench(ctx context.Context, v *runner.Visit, workload string, threads, seconds int, load *runner.Load) (string, error) {
	args := append(sysbenchArgs(v.Shared, v.Dir), "--rand-seed="+strconv.Itoa(v.Round+1), "--threads="+strconv.Itoa(threads), "--time="+strconv.Itoa(seconds), workload, "run")
	var report strings.Builder
	err := measure.Lines(ctx, v.Paths["sysbench"], args, measure.Clean(v.Environ), func(line string) {
		report.WriteString(line + "\n")
		if load == nil {
			return
		}
		switch { // its threads have connected; its threads have done their last transaction
		case strings.HasPrefix(line, "Threads started!"):
			load.Begin()
		case strings.HasPrefix(line, "Latency histogram"), strings.HasPrefix(line, "SQL statistics"):
			load.End()
		}
	})
	return report.String(), err
}

func mariadbLoad(ctx context.Context, v *runner.Visit, workload string, threads int, load *runner.Load) (transactionReport, error) {
	text, err := sysbench(ctx, v, workload, threads, stepSeconds(v), load)
	if err != nil {
		return transactionReport{}, err
	}
	r, err := parseSysbench(text)
	return transactionReport{r.transactions, r.perSecond, r.latency.quantile}, err
}

// sysbenchReport holds the figures that sysbench prints for one run; latencies are in milliseconds.
type sysbenchReport struct {
	transactions, perSecond float64
	latency                 histogram
}

var errNoReport = errors.New("sysbench printed no result")

func parseSysbench(text string) (sysbenchReport, error) {
	var r sysbenchReport
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "transactions:"); ok {
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%f (%f per sec.)", &r.transactions, &r.perSecond); err != nil {
				return r, fmt.Errorf("read the transactions of sysbench from %q: %w", line, err)
			}
		}
		// "       2.071 |*****                  12": upper bound, picture, count
		if bound, rest, ok := strings.Cut(line, "|"); ok {
			words := strings.Fields(rest)
			if at, err := strconv.ParseFloat(strings.TrimSpace(bound), 64); err == nil && len(words) > 0 {
				count, err := strconv.ParseUint(words[len(words)-1], 10, 64)
				if err != nil {
					return r, fmt.Errorf("read the histogram of sysbench from %q: %w", line, err)
				}
				r.latency = append(r.latency, bucket{at, count})
			}
		}
	}
	if r.transactions <= 0 || len(r.latency) == 0 {
		return r, fmt.Errorf("%w; it printed: %.300q", errNoReport, text)
	}
	return r, nil
}
