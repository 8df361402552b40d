package cold

// A Report is the output of --json. Sizes are bytes. Cold means: not accessed during the whole watch.
type Report struct {
	Title     string  `json:"title"`
	Source    string  `json:"source"`
	Seconds   float64 `json:"seconds"`
	Asked     float64 `json:"seconds_asked"` // less, where samples would have taken more than 1 % of that
	Intervals int     `json:"intervals"`
	Cost      struct {
		ReadingSeconds    float64 `json:"reading_seconds"`
		ForgettingSeconds float64 `json:"forgetting_seconds"`
		LongestSeconds    float64 `json:"longest_wait_seconds"` // that mmap and munmap of the process may have had
	} `json:"cost"`
	Live     uint64 `json:"live_bytes"`
	InMemory uint64 `json:"live_in_memory_bytes"`
	Swap     uint64 `json:"process_swap_bytes"`
	Huge     uint64 `json:"process_huge_pages_bytes"`
	// ColdPages are the pages that page out removes from memory: cold, with a live object.
	ColdPages uint64  `json:"cold_pages_bytes"`
	Ages      []Age   `json:"ages"`
	Classes   []Class `json:"classes"`
	Sampling  bool    `json:"sampling"`
	Stacks    []Stack `json:"stacks"`
	Arenas    []Arena `json:"arenas"`
}

// An Age is live memory that was not accessed for at least so long. A longer age is part of the shorter ones.
type Age struct {
	Seconds float64 `json:"at_least_seconds"`
	Bytes   uint64  `json:"live_bytes"`
}

// Amounts are live bytes in memory, and how many of them are on pages that were not accessed for a time.
type Amounts struct {
	InMemory uint64   `json:"live_in_memory_bytes"`
	ByAge    []uint64 `json:"by_age_bytes"` // in the order of Report.Ages
}

// Cold is the part that was not accessed during the whole watch.
func (a Amounts) Cold() uint64 { return a.ByAge[len(a.ByAge)-1] }

func (a *Amounts) add(b Amounts, times float64) {
	a.InMemory += uint64(times*float64(b.InMemory) + 0.5)
	for i := range a.ByAge {
		a.ByAge[i] += uint64(times*float64(b.ByAge[i]) + 0.5)
	}
}

// A Class is live memory of one object size; 0: blocks.
type Class struct {
	Size uint64 `json:"object_size"`
	Live uint64 `json:"live_bytes"`
	Amounts
}

// An Arena is a scoped heap or an arena. Its amounts are pages: which of them hold live objects is not known.
type Arena struct {
	Index int    `json:"index"`
	Live  uint64 `json:"live_bytes"`
	Amounts
}

// A Stack is the memory that one stack allocated, estimated from the samples of the heap profile.
type Stack struct {
	Amounts
	Stack []string `json:"stack"` // the innermost first
}
