package cold

import (
	"fmt"
	"io"

	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/term"
)

func (r Report) write(w io.Writer, width, limit int) {
	term.Line(w, "%s: watched for %.1f s in %s, by %s", r.Title, r.Seconds, term.Counted(r.Intervals, "interval"), r.Source)
	if r.Seconds > 1.2*r.Asked {
		term.Line(w, "That is longer than %g s, because samples may take at most %.0f %% of the time.", r.Asked, 100*maxShare)
	}
	fmt.Fprintln(w)
	term.Line(w, "Live memory: %s, in memory %s. The process has %s in swap.", term.Bytes(r.Live), term.Bytes(r.InMemory), term.Bytes(r.Swap))
	if r.Huge > 0 {
		term.Line(w, "%s of the process are in huge pages: 2 MiB with one age, which hides cold memory (huge_pages:never).", term.Bytes(r.Huge))
	}
	r.ages().Write(w, width)
	term.Line(w, "Cold pages, which page out removes from memory: %s", term.Bytes(r.ColdPages))
	if len(r.Classes) > 0 {
		fmt.Fprintf(w, "\nBy size class; COLD: not accessed for %.1f s\n", r.Seconds)
		r.classes(limit).Write(w, width)
	}
	if len(r.Arenas) > 0 {
		fmt.Fprintln(w, "\nScoped heaps and arenas: all of their pages")
		r.arenas(limit).Write(w, width)
	}
	if r.Sampling {
		fmt.Fprintln(w, "\nBy stack, estimated from samples, the innermost function first")
		r.stacks(limit).Write(w, width)
	} else {
		fmt.Fprintln(w)
		term.Line(w, "Sampling is off, so stacks are not known: start it with `granary profile PID`, and repeat this command.")
	}
	c := r.Cost
	fmt.Fprintln(w)
	term.Line(w, "Cost: %.1f ms in the kernel, %s of the watch; mmap and munmap of the process waited at most %.1f ms at a time.",
		1000*(c.ForgettingSeconds+c.ReadingSeconds), term.Percent(c.ForgettingSeconds+c.ReadingSeconds, r.Seconds), 1000*c.LongestSeconds)
}

func (r Report) ages() term.Table {
	t := term.Table{Header: []string{"NOT ACCESSED FOR", " BYTES", " OF LIVE"}}
	for _, age := range r.Ages {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%.1f s", age.Seconds), term.Bytes(age.Bytes), term.Percent(float64(age.Bytes), float64(r.InMemory))})
	}
	return t
}

// cells are the columns IN MEMORY, COLD and OF IT.
func (a Amounts) cells() []string {
	return []string{term.Bytes(a.InMemory), term.Bytes(a.Cold()), term.Percent(float64(a.Cold()), float64(a.InMemory))}
}

func (r Report) classes(limit int) term.Table {
	t := term.Table{Header: []string{" SIZE", " LIVE", " IN MEMORY", " COLD", " OF IT"}}
	for _, c := range term.First(r.Classes, limit) {
		size := "block"
		if c.Size != 0 {
			size = term.Count(c.Size)
		}
		t.Rows = append(t.Rows, append([]string{size, term.Bytes(c.Live)}, c.cells()...))
	}
	return t
}

func (r Report) arenas(limit int) term.Table {
	t := term.Table{Header: []string{" INDEX", " LIVE", " IN MEMORY", " COLD", " OF IT"}}
	for _, a := range term.First(r.Arenas, limit) {
		t.Rows = append(t.Rows, append([]string{fmt.Sprint(a.Index), term.Bytes(a.Live)}, a.cells()...))
	}
	return t
}

func (r Report) stacks(limit int) term.Table {
	t := term.Table{Header: []string{" IN MEMORY", " COLD", " OF IT", "STACK"}, Fold: true}
	for _, s := range term.First(r.Stacks, limit) {
		t.Rows = append(t.Rows, append(s.cells(), profile.Chain(s.Stack, 6)))
	}
	return t
}
