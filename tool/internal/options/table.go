package options

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary"
)

// An Option is a row of core/src/config/options.def with the names that other allocators have for it.
type Option struct {
	Name      string   `json:"name"`
	Values    string   `json:"values"`  // words, or the bounds
	Default   string   `json:"default"` // a word, or a number
	Unit      string   `json:"unit,omitempty"`
	AtRunTime bool     `json:"at_run_time"` // whether it can change while the program runs
	Meaning   string   `json:"meaning"`
	When      string   `json:"when"` // when to change it
	Jemalloc  []string `json:"jemalloc,omitempty"`
	TCMalloc  []string `json:"tcmalloc,omitempty"`
}

// Table is every option, in the order of the library's table.
func Table() []Option {
	var out []Option
	for _, f := range rows("options.def", "OPTION", 9) {
		o := Option{Name: f[0], Default: f[2], AtRunTime: f[5] == "true", Meaning: f[7], When: f[8]}
		switch f[1] {
		case "bool":
			o.Values = "true, false"
		case "PathSize":
			o.Values, o.Default = "an absolute path of at most "+f[4]+" letters", "none"
		default:
			o.Values = f[3] + " to " + f[4]
		}
		if f[6] != "None" {
			o.Unit = strings.ToLower(f[6])
		}
		out = append(out, o)
	}
	nameWords(out)
	for _, f := range rows("jemalloc_options.def", "JEMALLOC_OPTION", 6) {
		if o := find(out, f[5]); o != nil && f[1] == "Effective" {
			o.Jemalloc = append(o.Jemalloc, f[0])
		}
	}
	for _, f := range rows("tcmalloc_variables.def", "TCMALLOC_VARIABLE", 5) {
		if o := find(out, f[1]); o != nil {
			o.TCMalloc = append(o.TCMalloc, f[0])
		}
	}
	return out
}

func find(table []Option, name string) *Option {
	if i := slices.IndexFunc(table, func(o Option) bool { return o.Name == name }); i >= 0 {
		return &table[i]
	}
	return nil
}

// nameWords gives the options whose values are words these words.
func nameWords(table []Option) {
	words := map[string][]string{}
	for _, f := range rows("words.def", "WORD", 3) {
		words[f[0]] = append(words[f[0]], f[1])
	}
	for i := range table {
		named := words[table[i].Name]
		if at, err := strconv.Atoi(table[i].Default); err == nil && at < len(named) {
			table[i].Values, table[i].Default = strings.Join(named, ", "), named[at]
		}
	}
}

var (
	comment = regexp.MustCompile(`(?m)^\s*//.*$`)
	field   = regexp.MustCompile(`((?:"(?:[^"\\]|\\.)*"\s*)+)|([^",\s][^",]*)`)
	quoted  = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// rows are the rows MACRO(field, ...) of a table; adjacent strings are one field. A table that it cannot read is a fault of
// the build, which a test finds.
func rows(name, macro string, columns int) [][]string {
	data, err := granary.OptionTables.ReadFile("core/src/config/" + name)
	if err != nil {
		panic(err)
	}
	text := "\n" + comment.ReplaceAllString(string(data), "")
	var out [][]string
	for _, row := range strings.Split(text, "\n"+macro+"(")[1:] {
		var fields []string
		for _, m := range field.FindAllStringSubmatch(strings.TrimSuffix(strings.TrimSpace(row), ")"), -1) {
			if m[1] == "" {
				fields = append(fields, strings.TrimSpace(m[2]))
				continue
			}
			joined := ""
			for _, part := range quoted.FindAllStringSubmatch(m[1], -1) {
				joined += strings.ReplaceAll(part[1], `\"`, `"`)
			}
			fields = append(fields, joined)
		}
		if len(fields) != columns {
			panic(fmt.Sprintf("%s: %q has %d fields, not %d", name, fields, len(fields), columns))
		}
		out = append(out, fields)
	}
	return out
}
