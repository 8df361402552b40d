package cold

// A pace is how much may be paged out in a second. It slows down when memory returns, and recovers.
type pace struct {
	limit uint64 // bytes a second
	now   uint64
}

const (
	tolerated = 20 // one in so many bytes that are out may return in one interval
	slowest   = 64 // part of the limit below which paging out pauses
	recovery  = 8  // intervals without returns from a pause to the limit
)

// adjust is called at the end of an interval: how much was out at its begin, and how much of that returned.
func (p *pace) adjust(out, back uint64) {
	switch {
	case back*tolerated > out:
		if p.now /= 2; p.now < p.limit/slowest {
			p.now = 0
		}
	default:
		p.now = min(p.limit, p.now+p.limit/recovery)
	}
}
