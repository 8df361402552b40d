package inspect

import "strconv"

// words are the values of options that have names, as core/src/config/words.def lists them.
var words = map[string][]string{
	"ready_lists":  {"auto", "always", "never"},
	"huge_pages":   {"default", "always", "never"},
	"metadata_thp": {"disabled", "auto", "always"},
	"junk":         {"false", "alloc", "free", "true"},
	"zero_realloc": {"free", "alloc", "abort"},
}

// Text is a value of the option as GRANARY_CONF takes it: a word where the value has one.
func (o Option) Text(value int64) string {
	if o.Type == "bool" {
		return strconv.FormatBool(value != 0)
	}
	if o.Type == "PathSize" {
		return map[bool]string{true: "set", false: "none"}[value != 0]
	}
	if named := words[o.Name]; value >= 0 && value < int64(len(named)) {
		return named[value]
	}
	return strconv.FormatInt(value, 10)
}

// Words are the names of an option's values, from 0 on; none of an option whose values are numbers.
func Words(option string) []string { return words[option] }
