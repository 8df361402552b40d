package runner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// A Kind is the type of a parameter's value.
type Kind int

// The kinds of parameters.
const (
	Number   Kind = iota // a whole number
	Numbers              // whole numbers separated by commas
	Duration             // such as 10s
	Words                // words separated by commas
)

// A Param is one size of a scenario. It becomes a flag of the command.
type Param struct {
	Name  string
	Kind  Kind
	Help  string
	Full  string
	Quick string   // like Full when empty
	Long  string   // like Full when empty
	Least int      // of a Number or of each of Numbers
	OneOf []string // the allowed Words; nil is any
}

// A Size selects a column of the parameters' defaults.
type Size string

// The sizes of a run.
const (
	Full  Size = "full"
	Quick Size = "quick"
	Long  Size = "long"
)

func (p Param) at(size Size) string {
	switch {
	case size == Quick && p.Quick != "":
		return p.Quick
	case size == Long && p.Long != "":
		return p.Long
	}
	return p.Full
}

// Values are the parameters of a run by name. They have been checked.
type Values map[string]string

// Number is the value of a Number.
func (v Values) Number(name string) int {
	n, _ := strconv.Atoi(v[name]) // checked
	return n
}

// Numbers are the values of Numbers.
func (v Values) Numbers(name string) []int {
	var out []int
	for _, word := range v.Words(name) {
		n, _ := strconv.Atoi(word) // checked
		out = append(out, n)
	}
	return out
}

// Duration is the value of a Duration.
func (v Values) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(v[name]) // checked
	return d
}

// Words are the values of Words.
func (v Values) Words(name string) []string {
	if v[name] == "" {
		return nil
	}
	return strings.Split(v[name], ",")
}

// A word is the value of a parameter's flag; its kind is what help shows.
type word struct {
	text string
	kind Kind
}

func (w *word) String() string { return w.text }

// Set stores any text without checking it; all parameters are checked together later.
func (w *word) Set(text string) error { w.text = text; return nil }

// Type is the word that help shows for the value.
func (w *word) Type() string {
	return map[Kind]string{Number: "number", Numbers: "numbers", Duration: "duration", Words: "words"}[w.kind]
}

// registerParams declares a flag for each parameter.
func registerParams(fs *pflag.FlagSet, params []Param) map[string]*word {
	out := map[string]*word{}
	for _, p := range params {
		out[p.Name] = &word{kind: p.Kind}
		fs.Var(out[p.Name], p.Name, p.usage())
	}
	return out
}

func (p Param) usage() string {
	if p.Full == "" {
		return p.Help
	}
	list := strings.NewReplacer(",", ", ") // so that help can wrap it
	help := p.Help + " (default " + list.Replace(p.Full)
	for _, other := range []struct{ flag, value string }{{"quick", p.Quick}, {"long", p.Long}} {
		if other.value != "" && other.value != p.Full {
			help += "; with --" + other.flag + " " + list.Replace(other.value)
		}
	}
	return help + ")"
}

// Resolve is the defaults of a size, checked.
func Resolve(params []Param, size Size) (Values, error) { return resolve(params, size, nil) }

// resolve fills in the defaults of size and checks everything.
func resolve(params []Param, size Size, given map[string]*word) (Values, error) {
	values := Values{}
	for _, p := range params {
		value := p.at(size)
		if g := given[p.Name]; g != nil && g.text != "" {
			value = g.text
		}
		if err := p.check(value); err != nil {
			return nil, cli.Usagef("--%s: %w", p.Name, err)
		}
		values[p.Name] = value
	}
	return values, nil
}

func (p Param) check(value string) error {
	switch p.Kind {
	case Number:
		return p.checkNumber(value)
	case Numbers:
		var errs []error
		for word := range strings.SplitSeq(value, ",") {
			errs = append(errs, p.checkNumber(word))
		}
		return errors.Join(errs...)
	case Duration:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no duration; write one such as 10s or 500ms", value)
		}
	case Words:
		if value == "" {
			return nil
		}
		for word := range strings.SplitSeq(value, ",") {
			if p.OneOf != nil && !slices.Contains(p.OneOf, word) {
				return fmt.Errorf("there is no %q; choose from %s", word, strings.Join(p.OneOf, ", "))
			}
		}
	}
	return nil
}

func (p Param) checkNumber(word string) error {
	n, err := strconv.Atoi(word)
	if err != nil {
		return fmt.Errorf("%q is no whole number; write digits only", word)
	}
	if n < p.Least {
		return fmt.Errorf("%d is too small; the least is %d", n, p.Least)
	}
	return nil
}
