// Package options reads settings of the library as people write them: with units, with = or :, and with the nearest name
// for one that is misspelt. It also lists the options.
package options

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"

	"github.com/dustin/go-humanize"
)

// Normal is a setting as the library takes it, NAME:VALUE: of NAME=VALUE, a size with a unit becomes bytes, a duration
// milliseconds. The error names the mistake.
func Normal(known []inspect.Option, setting string) (string, error) {
	i := strings.IndexAny(setting, ":=")
	if i < 0 {
		return "", fmt.Errorf("%q has no value: write NAME:VALUE", setting)
	}
	name, value := strings.TrimSpace(setting[:i]), strings.TrimSpace(setting[i+1:])
	at := slices.IndexFunc(known, func(o inspect.Option) bool { return o.Name == name })
	if at < 0 {
		return "", fmt.Errorf("there is no option %q%s", name, nearest(namesOf(known), name))
	}
	o := known[at]
	if o.Type == "bool" {
		return name + ":" + value, oneOf(name, value, "true", "false", "1", "0")
	}
	if o.Type == "PathSize" {
		return name + ":" + value, absolute(o, value)
	}
	n, err := number(o, value)
	if err != nil {
		return name + ":" + value, err
	}
	if n < o.Lowest || n > o.Highest {
		return "", fmt.Errorf("%s cannot be %s, only %s", name, value, limits(o))
	}
	if strings.Trim(value, "-0123456789") == "" {
		return name + ":" + value, nil
	}
	if o.Text(n) == value {
		return name + ":" + value, nil
	}
	return name + ":" + strconv.FormatInt(n, 10), nil
}

// limits says which numbers an option takes; one that has names says these, and one without an upper limit no number of
// nineteen digits.
func limits(o inspect.Option) string {
	switch named := inspect.Words(o.Name); {
	case len(named) > 0:
		return strings.Join(named, ", ")
	case o.Highest == math.MaxInt64:
		return fmt.Sprintf("%d or more", o.Lowest)
	}
	if strings.HasSuffix(o.Name, "_ms") {
		return fmt.Sprintf("%d to %d milliseconds", o.Lowest, o.Highest)
	}
	return fmt.Sprintf("%d to %d", o.Lowest, o.Highest)
}

func oneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s cannot be %q, only %s", name, value, strings.Join(allowed, ", "))
}

func absolute(o inspect.Option, value string) error {
	if filepath.IsAbs(value) && int64(len(value)) <= o.Highest {
		return nil
	}
	return fmt.Errorf("%s cannot be %q, only an absolute path of at most %d letters", o.Name, value, o.Highest)
}

// number is a value: plain, by its word, or with a unit.
func number(o inspect.Option, value string) (int64, error) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n, nil
	}
	if named := inspect.Words(o.Name); len(named) > 0 {
		if i := slices.Index(named, value); i >= 0 {
			return int64(i), nil
		}
		return 0, fmt.Errorf("%s cannot be %q, only %s", o.Name, value, strings.Join(named, ", "))
	}
	if strings.HasSuffix(o.Name, "_ms") {
		d, err := time.ParseDuration(strings.ToLower(strings.ReplaceAll(value, " ", "")))
		if err != nil {
			return 0, fmt.Errorf("%s cannot be %q: write milliseconds, or a duration such as 500ms or 5s", o.Name, value)
		}
		return d.Milliseconds(), nil
	}
	bytes, err := humanize.ParseBytes(value)
	if err != nil || bytes > 1<<62 || !endsInB(value) {
		return 0, fmt.Errorf("%s cannot be %q: write a number, or a size such as 64KiB or 50MiB", o.Name, value)
	}
	return int64(bytes), nil
}

// endsInB tells sizes with a whole unit, KiB or KB, from those with a letter, of which it is not clear whether K is 1,000.
func endsInB(value string) bool { return strings.HasSuffix(strings.ToLower(value), "b") }

// Wrong returns one message for each row of a GRANARY_CONF that the library would refuse.
func Wrong(known []inspect.Option, conf string) []string {
	var out []string
	for row := range strings.SplitSeq(conf, ",") {
		if strings.TrimSpace(row) == "" {
			continue
		}
		if _, err := Normal(known, row); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// nearest proposes the option whose name differs least, if it is a likely slip.
func nearest(known []string, name string) string {
	if near := cli.Nearest(known, name); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func namesOf(known []inspect.Option) (out []string) {
	for _, o := range known {
		out = append(out, o.Name)
	}
	return out
}
