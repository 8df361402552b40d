package cost

// Glibc is the C library's malloc (ptmalloc2): a word of header before each block, steps of 16 bytes
// from 32, and a separate mapping from 128 KiB.
var Glibc = Allocator{Name: "glibc", Place: func(request uint64) Place {
	const word, step, least, mapped = 8, 16, 32, 128 << 10
	chunk := max(least, up(request+word, step))
	if request >= mapped-3*word { // the chunk reaches the threshold
		block := up(chunk+word, Page)
		return Place{block - 2*word, float64(block)}
	}
	p := Place{chunk - word, float64(chunk)}
	if chunk > 2*Page {
		p.Resident = min(p.Resident, float64(request+word+Page))
	}
	return p
}}
