package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/bench/measure"
	"github.com/granary-allocator/granary/tool/internal/bench/result"
	"github.com/granary-allocator/granary/tool/internal/bench/runner"
)

var nginx = runner.Scenario{
	Name:    "nginx",
	Summary: "compare allocators under nginx with wrk: files, gzip and server-side includes",
	Rounds:  measure.Rounds{Full: 5, Quick: 3},
	Needs:   []runner.Need{{Program: "nginx", Package: "nginx"}, {Program: "wrk", Package: "wrk"}},
	Params: []runner.Param{
		{Name: "connections", Kind: runner.Numbers, Full: "256", Least: 2, Help: "concurrent connections, one number after another"},
		{Name: "pages", Kind: runner.Words, Full: "plain,gzip,ssi", OneOf: []string{"plain", "gzip", "ssi"}, Help: "the request: a small file, a compressed one, a page with includes"},
		{Name: "time", Kind: runner.Duration, Full: "10s", Quick: "3s", Long: "60s", Help: "of each step"},
		{Name: "workers", Kind: runner.Number, Full: "2", Least: 1, Help: "worker processes"},
		runner.SettleParam(),
	},
	Phases: nginxPhases,
}

const nginxConf = `daemon off;
%s
worker_processes %s;
pid %[3]s/pid;
error_log %[3]s/error.log warn;
worker_rlimit_nofile 4096;
events { worker_connections 2048; }
http {
  access_log off;
  types { text/html html; text/plain txt; }
  client_body_temp_path %[3]s/body;
  proxy_temp_path %[3]s/proxy;
  fastcgi_temp_path %[3]s/fastcgi;
  uwsgi_temp_path %[3]s/uwsgi;
  scgi_temp_path %[3]s/scgi;
  keepalive_requests 1000;
  gzip_types text/plain text/html;
  gzip_vary on;
  server {
    listen 127.0.0.1:%[4]d backlog=4096;
    root %[3]s/site;
    location /plain { }
    location /gzip { gzip on; }
    location /ssi { ssi on; gzip on; }
  }
}
`

// nginxPages are the requests for each word of the parameter.
var nginxPages = map[string]string{"plain": "/plain/page.txt", "gzip": "/gzip/page.txt", "ssi": "/ssi/page.html"}

func nginxPhases(values runner.Values) []runner.Phase {
	var port int
	list := []runner.Phase{runner.StartPhase(func(ctx context.Context, v *runner.Visit) (err error) {
		port, err = startNginx(ctx, v)
		return err
	})}
	list = append(list, runner.WarmUp(func(ctx context.Context, v *runner.Visit) error {
		_, err := v.Tool(ctx, v.Paths["wrk"], "-t2", "-c16", "-d1s", fmt.Sprintf("http://127.0.0.1:%d%s", port, nginxPages["ssi"]))
		return err
	}))
	for _, page := range values.Words("pages") {
		for _, connections := range values.Numbers("connections") {
			list = append(list, runner.Phase{
				Name: fmt.Sprintf("%s, %d connections", page, connections),
				Rows: slices.Concat([]result.Row{runner.HigherRow(runner.MetricThroughput, "1/s"), runner.LowerRow("server CPU a request", "us")},
					runner.LoadMemory(true), []result.Row{runner.ShareRow()}, runner.LatencyRows(runner.MetricP50, runner.MetricP90, runner.MetricP99)),
				Do: func(ctx context.Context, v *runner.Visit) error {
					return nginxStep(ctx, v, fmt.Sprintf("http://127.0.0.1:%d%s", port, nginxPages[page]), connections)
				},
			})
		}
	}
	return append(list, runner.IdlePhase(), runner.WholeTreePhase())
}

// nginxSite writes the files that are served.
func nginxSite(dir string) error {
	text := strings.Repeat("A line of text that a page of some length is made of.\n", 300)
	var page strings.Builder
	for i := range 12 {
		fmt.Fprintf(&page, "<!--#set var=\"part\" value=\"%d\" --><p><!--#echo var=\"part\" --></p><!--#include virtual=\"/ssi/piece%d.html\" -->\n", i, i%4)
	}
	files := map[string]string{"plain/page.txt": text[:1000], "gzip/page.txt": text, "ssi/page.html": page.String()}
	for i := range 4 {
		files[fmt.Sprintf("ssi/piece%d.html", i)] = text[:500*(i+1)]
	}
	for name, body := range files {
		path := filepath.Join(dir, "site", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the site: %w", err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			return fmt.Errorf("make the site: %w", err)
		}
	}
	return nil
}

func startNginx(ctx context.Context, v *runner.Visit) (port int, err error) {
	if port, err = v.FreePort(); err != nil {
		return 0, err
	}
	if err := nginxSite(v.Dir); err != nil {
		return 0, err
	}
	account := ""
	if os.Geteuid() == 0 {
		account = "user root;" // the folder is the tool's own
	}
	conf, err := v.WriteFile("nginx.conf", fmt.Sprintf(nginxConf, account, v.Values["workers"], v.Dir, port))
	if err != nil {
		return 0, err
	}
	return port, v.Start(ctx, runner.ServerSpec{
		Name: "nginx", Path: v.Paths["nginx"], Args: []string{"-c", conf, "-e", filepath.Join(v.Dir, "error.log")}, Tree: true,
		Ready: func(ctx context.Context) error {
			return fetch(ctx, fmt.Sprintf("http://127.0.0.1:%d/ssi/page.html", port))
		},
	})
}

// fetch requests one page and returns an error unless the server delivers it.
func fetch(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s was answered by %s", url, response.Status)
	}
	return nil
}

func nginxStep(ctx context.Context, v *runner.Visit, url string, connections int) error {
	var report string
	seen, err := v.WatchShare(ctx, func(ctx context.Context, _ *runner.Load) (err error) {
		report, err = v.Tool(ctx, v.Paths["wrk"], "-t2", "-c"+strconv.Itoa(connections), "-d"+v.Values["time"], "--latency", "--timeout", "30s", "-H", "Accept-Encoding: gzip", url)
		return err
	})
	if err != nil {
		return err
	}
	w, err := parseWrk(report)
	if err != nil {
		return err
	}
	v.Set(runner.MetricThroughput, w.perSecond)
	v.Set("server CPU a request", seen.CPUSeconds/w.requests*1e6)
	v.SetLoadMemory(seen)
	v.Set(runner.MetricP50, w.p50)
	v.Set(runner.MetricP90, w.p90)
	v.Set(runner.MetricP99, w.p99)
	return nil
}

// wrkReport holds the figures that wrk prints; latencies are in milliseconds.
type wrkReport struct{ perSecond, requests, p50, p90, p99 float64 }

var (
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkShare    = regexp.MustCompile(`(?m)^\s+(50|90|99)%\s+([0-9.]+[a-z]+)`)
	wrkErrors   = regexp.MustCompile(`(?m)^\s*(Non-2xx.*|Socket errors.*)$`)
)

func parseWrk(text string) (wrkReport, error) {
	var w wrkReport
	if match := wrkErrors.FindString(text); match != "" {
		return w, fmt.Errorf("wrk met errors: %s", strings.TrimSpace(match))
	}
	rate, requests, shares := wrkRate.FindStringSubmatch(text), wrkRequests.FindStringSubmatch(text), wrkShare.FindAllStringSubmatch(text, -1)
	if rate == nil || requests == nil || len(shares) != 3 {
		return w, fmt.Errorf("wrk printed no result; it printed: %.300q", text)
	}
	w.perSecond, _ = strconv.ParseFloat(rate[1], 64) // the pattern holds digits only
	w.requests, _ = strconv.ParseFloat(requests[1], 64)
	for i, into := range []*float64{&w.p50, &w.p90, &w.p99} {
		d, err := time.ParseDuration(shares[i][2])
		if err != nil {
			return w, fmt.Errorf("read the latencies of wrk: %w", err)
		}
		*into = d.Seconds() * 1e3
	}
	return w, nil
}
