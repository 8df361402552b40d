package procfs

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Region is a mapping with what of it is in memory, in bytes.
type Region struct {
	Mapping
	RSS           uint64
	PSS           uint64
	PrivateDirty  uint64
	Anonymous     uint64
	AnonHugePages uint64
	LazyFree      uint64 // freed with MADV_FREE: counts until the kernel needs it
	Swap          uint64
}

// Smaps reads /proc/PID/smaps.
func (fs FS) Smaps(pid int) ([]Region, error) {
	f, err := os.Open(fs.Path(pid, "smaps"))
	if err != nil {
		return nil, fmt.Errorf("read smaps of process %d: %w", pid, err)
	}
	defer f.Close()
	var out []Region
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if name, kb, ok := sizeLine(line); ok {
			if len(out) > 0 {
				out[len(out)-1].set(name, kb<<10)
			}
		} else if m, ok := ParseMapping(line); ok {
			out = append(out, Region{Mapping: m})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read smaps of process %d: %w", pid, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read smaps of process %d: %w", pid, ErrNoMemory)
	}
	return out, nil
}

// sizeLine reads "Rss:   123 kB".
func sizeLine(line string) (name string, kb uint64, ok bool) {
	name, rest, ok := strings.Cut(line, ":")
	if !ok || !strings.HasSuffix(rest, " kB") || strings.Contains(name, " ") {
		return "", 0, false
	}
	kb, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, " kB")), 10, 64)
	return name, kb, err == nil
}

func (r *Region) set(name string, bytes uint64) {
	switch name {
	case "Rss":
		r.RSS = bytes
	case "Pss":
		r.PSS = bytes
	case "Private_Dirty":
		r.PrivateDirty = bytes
	case "Anonymous":
		r.Anonymous = bytes
	case "AnonHugePages":
		r.AnonHugePages = bytes
	case "LazyFree":
		r.LazyFree = bytes
	case "Swap":
		r.Swap = bytes
	}
}
