package exporter

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/push"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/pflag"
)

// DefaultListen is the loopback address that is served unless the user names another.
const DefaultListen = "127.0.0.1:9778"

// Command is the command `granary exporter`.
var Command = cli.Command{
	Name: "exporter", Usage: "[options]",
	Summary: "serve the statistics of Granary processes to Prometheus, or push them by OTLP",
	About: `At each scrape it reads every process that runs Granary and that it may read. Nothing runs in
those processes, and a process that ends meanwhile is left out. Names come from the library's own table,
in base units. To read processes of other users it needs CAP_SYS_PTRACE. integrations/ holds a systemd
unit, Kubernetes examples, alert rules and a Grafana dashboard.`,
	Examples: []cli.Example{
		{Line: "exporter", Does: "serve http://" + DefaultListen + "/metrics"},
		{Line: "exporter --listen 0.0.0.0:9778 --command '^(redis|mariadbd)'", Does: "to other machines, only some programs"},
		{Line: "exporter --by-command", Does: "a series for each name instead of each process"},
		{Line: "exporter --push http://localhost:4317", Does: "to an OpenTelemetry collector, by gRPC, each minute"},
		{Line: "exporter --once > /var/lib/node_exporter/granary.prom", Does: "for node_exporter's textfile collector"},
	},
	Setup: setup,
}

type options struct {
	Config
	listen, command string
	serves          func() bool // also while it pushes
	once            bool
	push            push.Options
	every           time.Duration
}

func setup(fs *pflag.FlagSet) cli.Action {
	var o options
	fs.StringVar(&o.listen, "listen", DefaultListen, "`address` and port to serve")
	fs.IntSliceVar(&o.PIDs, "pid", nil, "only these `PIDs` (default: every process that runs Granary)")
	fs.StringVar(&o.command, "command", "", "only processes whose name matches this regular `expression`")
	fs.BoolVar(&o.Classes, "classes", false, "also the statistics of each size class (400 series a process)")
	fs.BoolVar(&o.ByCommand, "by-command", false, "the sums of the processes of each name, without the label pid")
	fs.IntVar(&o.MaxProcesses, "max-processes", 500, "read at most this `number` of processes; the rest is counted")
	fs.DurationVar(&o.Timeout, "timeout", 5*time.Second, "after this `duration`, read no further process")
	o.push.Flags(fs, push.OTLP, "http://localhost:4317; it then serves only if --listen is given, too")
	fs.DurationVar(&o.every, "every", time.Minute, "`duration` between two pushes")
	o.serves = func() bool { return o.push.URL == "" || fs.Changed("listen") }
	fs.BoolVar(&o.once, "once", false, "print the metrics once, and end")
	return cli.Arguments(0, 0, "no argument", func(ctx context.Context, env cli.Env, _ []string) error {
		return o.run(ctx, env)
	})
}

func (o options) run(ctx context.Context, env cli.Env) error {
	if o.MaxProcesses < 1 || o.Timeout <= 0 {
		return cli.Usagef("--max-processes and --timeout must be above zero")
	}
	if o.command != "" {
		var err error
		if o.Commands, err = regexp.Compile(o.command); err != nil {
			return cli.Usagef("--command: %w", err)
		}
	}
	if o.Classes && o.ByCommand {
		return cli.Usagef("--classes needs the single processes: leave out --by-command")
	}
	collector := New(o.Config, procfs.Live(), inspect.OpenLive, time.Now)
	if o.once {
		return once(env, collector)
	}
	if o.push.URL == "" {
		return serve(ctx, env, o.listen, withOwn{collector})
	}
	pusher, err := o.pusher(env, collector)
	if err != nil {
		return err
	}
	if !o.serves() {
		pusher.run(ctx)
		return nil
	}
	return both(ctx, pusher, func(ctx context.Context) error { return serve(ctx, env, o.listen, withOwn{collector}) })
}

// both pushes while it serves, and ends with either.
func both(ctx context.Context, p pusher, serve func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var pushing sync.WaitGroup
	pushing.Go(func() { p.run(ctx) })
	err := serve(ctx)
	cancel()
	pushing.Wait()
	return err
}

func (o options) pusher(env cli.Env, collector *Collector) (pusher, error) {
	if o.every < time.Second {
		return pusher{}, cli.Usagef("--every must be 1s or more")
	}
	labels, err := o.push.Labels()
	if err != nil {
		return pusher{}, err
	}
	header, err := o.push.Header()
	if err != nil {
		return pusher{}, err
	}
	server, err := push.NewCollector(o.push.Protocol, push.Metrics, o.push.URL, header)
	if err != nil {
		return pusher{}, cli.Usagef("%w", err)
	}
	logger := log.New(env.Stderr, "granary exporter: ", 0)
	logger.Printf("sending to %s every %v", o.push.URL, o.every)
	return pusher{collect: collector.collect, encoder: newOTLPEncoder(env.Version, labels), send: server.Send, every: o.every, log: logger}, nil
}

// withOwn adds the CPU time and the memory of the exporter itself.
type withOwn struct{ *Collector }

func (w withOwn) Gather() ([]*dto.MetricFamily, error) {
	all, err := w.Collector.Gather()
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	own, err := registry.Gather()
	return append(all, own...), err
}

// once prints what can be read; errors of single processes are counted in the metrics themselves.
func once(env cli.Env, metrics prometheus.Gatherer) error {
	families, err := metrics.Gather()
	if err != nil {
		return fmt.Errorf("read the processes: %w", err)
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(env.Stdout, family); err != nil {
			return fmt.Errorf("print the metrics: %w", err)
		}
	}
	return nil
}

// Handler serves the metrics, and says what it is on every other path.
func Handler(registry prometheus.Gatherer, logger *log.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: logger, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
	}))
	mux.HandleFunc("GET /healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintln(w, `<title>granary exporter</title><p><a href="/metrics">metrics</a> of the processes that run Granary`)
	})
	return mux
}

func serve(ctx context.Context, env cli.Env, address string, registry prometheus.Gatherer) error {
	listener, err := cli.Listen("listen", address)
	if err != nil {
		return err
	}
	logger := log.New(env.Stderr, "granary exporter: ", 0)
	logger.Printf("serving http://%s/metrics", listener.Addr())
	server := &http.Server{Handler: Handler(registry, logger), ReadHeaderTimeout: 5 * time.Second, ErrorLog: logger}
	stopped := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(last); err != nil {
			logger.Printf("stop: %v", err)
		}
	})
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", address, err)
	}
	return nil
}
