package push

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// A Label is a name and a value that identify what is sent.
type Label struct{ Name, Value string }

// Options are the options of commands that push.
type Options struct {
	URL, Protocol string
	headers       string
	labels        []string
}

// Flags adds the options; the first of the protocols is the default.
func (o *Options) Flags(fs *pflag.FlagSet, protocols []string, example string) {
	fs.StringVar(&o.URL, "push", "", "`address` of the server, as "+example)
	fs.StringVar(&o.Protocol, "protocol", protocols[0], "the protocol of the server: `"+strings.Join(protocols, ", ")+"`")
	fs.StringVar(&o.headers, "headers", "", "`file` of header lines for every request, as \"Authorization: Bearer TOKEN\"")
	fs.StringSliceVar(&o.labels, "label", nil, "`name=value` added to everything that is sent")
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.]*$`)

// Labels are those of --label.
func (o *Options) Labels() (labels []Label, err error) {
	for _, text := range o.labels {
		name, value, ok := strings.Cut(text, "=")
		if !ok || !labelName.MatchString(name) {
			return nil, cli.Usagef("--label %q is not of the form name=value", text)
		}
		labels = append(labels, Label{Name: name, Value: value})
	}
	return labels, nil
}

// Header reads the file of --headers: lines "Name: value".
func (o *Options) Header() (http.Header, error) {
	header := http.Header{}
	if o.headers == "" {
		return header, nil
	}
	file, err := os.Open(o.headers)
	if err != nil {
		return nil, fmt.Errorf("read the headers: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("a line of %s is no header: write Name: value", o.headers)
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return header, lines.Err()
}
