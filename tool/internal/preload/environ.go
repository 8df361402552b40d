package preload

import (
	"slices"
	"strings"
)

// WithOption is environ with a setting, as in "hardened:true", at the end of GRANARY_CONF, where it overrides the
// settings before it.
func WithOption(environ []string, setting string) []string {
	const name = "GRANARY_CONF="
	out := slices.Clone(environ)
	for i, entry := range out {
		old, found := strings.CutPrefix(entry, name)
		if !found {
			continue
		}
		out[i] = name + strings.TrimPrefix(old+","+setting, ",")
		return out
	}
	return append(out, name+setting)
}

// Environ is environ with library first in LD_PRELOAD; what was there stays behind it.
func Environ(environ []string, library string) []string {
	out := make([]string, 0, len(environ)+1)
	value := library
	for _, entry := range environ {
		key, old, _ := strings.Cut(entry, "=")
		if key != "LD_PRELOAD" {
			out = append(out, entry)
			continue
		}
		if old != "" {
			value = library + ":" + old
		}
	}
	return append(out, "LD_PRELOAD="+value)
}
