package profile

import (
	"context"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/symbol"

	"github.com/google/pprof/profile"
)

// Named is Build with names, as far as f finds any.
func (h Heap) Named(ctx context.Context, f *symbol.Finder) (Built, symbol.Outcome) {
	b := h.Build()
	outcome := f.Symbolize(ctx, b.Profile)
	if sharedLibrary(h.Library) == "" {
		for _, s := range b.Sample {
			s.Location = withoutAllocator(s.Location)
		}
		for i := range b.Stacks {
			b.Stacks[i] = withoutAllocator(b.Stacks[i])
		}
	}
	return b, outcome
}

// entries are the functions of the allocator that a program calls.
var entries = []string{"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "operator new", "operator new[]"}

// withoutAllocator leaves out the innermost frames that are the allocator's own, where it is linked
// into the program and only their names tell.
func withoutAllocator(stack []*profile.Location) []*profile.Location {
	own := func(l *profile.Location) bool {
		return len(l.Line) > 0 && !slices.ContainsFunc(l.Line, func(line profile.Line) bool {
			return !strings.HasPrefix(line.Function.Name, "granary::") && !slices.Contains(entries, line.Function.Name)
		})
	}
	for len(stack) > 1 && own(stack[0]) {
		stack = stack[1:]
	}
	return stack
}
