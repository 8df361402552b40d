package profile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// A Web is the content of the page.
type Web struct {
	Profile *profile.Profile
	Type    string    // of the sample value that is shown first
	Listen  string    // address and port of the web page, for Serve
	Out     io.Writer // gets the report, or the address of the page
}

// Serve opens the web page and returns when ctx is done.
func (v Web) Serve(ctx context.Context) error {
	address := v.Listen
	if strings.HasPrefix(address, ":") { // this machine alone
		address = "localhost" + address
	}
	listener, err := cli.Listen("http", address)
	if err != nil {
		return err
	}
	o := v.options("-http="+listener.Addr().String(), "-no_browser")
	o.HTTPServer = func(args *driver.HTTPServerArgs) error {
		fmt.Fprintf(v.Out, "http://%s  (ctrl-c ends it)\n", listener.Addr())
		return serve(ctx, listener, args.Handlers)
	}
	return v.run(o)
}

// Report prints one of pprof's reports: "-top", "-tree", "-peek=REGEXP", "-list=REGEXP".
func (v Web) Report(kind ...string) error {
	return v.run(v.options(append(kind, "-output=report")...))
}

func serve(ctx context.Context, listener net.Listener, pages map[string]http.Handler) error {
	mux := http.NewServeMux()
	for path, page := range pages {
		if path == "/" {
			path = "/{$}"
		}
		mux.Handle(path, page)
		mux.Handle("/ui"+path, http.RedirectHandler(strings.TrimSuffix(path, "{$}"), http.StatusMovedPermanently)) // pprof's own links
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
	})
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the profile: %w", err)
	}
	return nil
}

func (v Web) options(flags ...string) *driver.Options {
	args := flags
	if v.Type != "" {
		args = append(args, "-sample_index="+v.Type)
	}
	return &driver.Options{
		Flagset: &webOptions{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError), args: append(args, "profile")},
		Fetch:   fetcher{v.Profile},
		Sym:     webNames{},
		UI:      &silent{},
		Writer:  writer{v.Out},
	}
}

func (v Web) run(o *driver.Options) error {
	if err := driver.PProf(o); err != nil {
		return fmt.Errorf("show the profile: %w", err)
	}
	return nil
}

// A fetcher returns a profile that is already in memory.
type fetcher struct{ profile *profile.Profile }

func (f fetcher) Fetch(source string, _, _ time.Duration) (*profile.Profile, string, error) {
	return f.profile.Copy(), source, nil
}

// webNames keeps the names: the profile already has them.
type webNames struct{}

func (webNames) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// A writer sends reports to one place, whatever file they are meant for.
type writer struct{ to io.Writer }

type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

func (w writer) Open(string) (io.WriteCloser, error) { return keptOpen{w.to}, nil }

// silent is a user interface without input. It drops pprof's progress messages; PProf returns the errors.
type silent struct{}

func (*silent) ReadLine(string) (string, error)     { return "", io.EOF }
func (*silent) Print(...any)                        {}
func (*silent) PrintErr(...any)                     {}
func (*silent) IsTerminal() bool                    { return false }
func (*silent) WantBrowser() bool                   { return false }
func (*silent) SetAutoComplete(func(string) string) {}

// webOptions are the options that pprof is given.
type webOptions struct {
	*flag.FlagSet
	args  []string
	extra []string
}

func (w *webOptions) StringList(name, value, usage string) *[]*string {
	return &[]*string{w.FlagSet.String(name, value, usage)}
}

func (w *webOptions) ExtraUsage() string         { return strings.Join(w.extra, "\n") }
func (w *webOptions) AddExtraUsage(usage string) { w.extra = append(w.extra, usage) }

func (w *webOptions) Parse(func()) []string {
	w.SetOutput(io.Discard)
	if err := w.FlagSet.Parse(w.args); err != nil {
		return nil
	}
	return w.Args()
}
