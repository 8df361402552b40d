package profile

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// WriteCollapsed prints a line a stack, outermost function first, as flame graph scripts read it.
func WriteCollapsed(w io.Writer, p *profile.Profile, index int) error {
	out := bufio.NewWriter(w)
	clean := strings.NewReplacer(";", ":", "\n", " ")
	for _, row := range Entries(p, index) {
		if row.Values[index] == 0 {
			continue
		}
		var names []string
		for _, name := range slices.Backward(row.Stack) {
			names = append(names, clean.Replace(name))
		}
		fmt.Fprintf(out, "%s %d\n", strings.Join(names, ";"), row.Values[index])
	}
	return out.Flush()
}

// WriteHeapV2 prints the text that jeprof and pprof read from jemalloc. The estimates are final, which
// this form expresses by a distance of one byte between samples: readers then correct nothing.
func WriteHeapV2(w io.Writer, p *profile.Profile) error {
	values := []int{Index(p, InUseObjects), Index(p, InUseSpace), Index(p, AllocObjects), Index(p, AllocSpace)}
	if slices.Contains(values, -1) {
		return fmt.Errorf("the profile has no %s, %s, %s and %s, which heap_v2 is made of", InUseObjects, InUseSpace, AllocObjects, AllocSpace)
	}
	out := bufio.NewWriter(w)
	total := make([]int64, len(p.SampleType))
	for _, s := range p.Sample {
		for i, v := range s.Value {
			total[i] += v
		}
	}
	counts := func(v []int64) string {
		return fmt.Sprintf("%d: %d [%d: %d]", v[values[0]], v[values[1]], v[values[2]], v[values[3]])
	}
	fmt.Fprintf(out, "heap_v2/1\n  t*: %s\n", counts(total))
	for _, s := range p.Sample {
		var addresses []string
		for _, l := range s.Location {
			if l.Address != 0 {
				addresses = append(addresses, fmt.Sprintf(" %#x", l.Address+1))
			}
		}
		if len(addresses) > 0 { // objects from before the profile have no addresses; they are in the total only
			fmt.Fprintf(out, "@%s\n  t*: %s\n", strings.Join(addresses, ""), counts(s.Value))
		}
	}
	fmt.Fprint(out, "\nMAPPED_LIBRARIES:\n")
	for _, m := range p.Mapping {
		fmt.Fprintf(out, "%x-%x r-xp %08x 00:00 0 %s\n", m.Start, m.Limit, m.Offset, m.File)
	}
	return out.Flush()
}
