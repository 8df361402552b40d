package profile

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// parseHeapV2 reads the text that jemalloc dumps, and Granary as well: a line of addresses for each
// stack, then lines of counts, "t*" for all threads. pprof's own parser knows only TCMalloc's form.
func parseHeapV2(text string) (*profile.Profile, error) {
	head, rest, _ := strings.Cut(text, "\n")
	rate, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(head), "heap_v2/"), 10, 64)
	if err != nil || rate < 1 {
		return nil, fmt.Errorf("its first line names no distance between samples")
	}
	p := &profile.Profile{
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: rate, DefaultSampleType: InUseSpace,
	}
	for _, t := range sampleTypes[:4] {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: t.name, Unit: t.unit})
	}
	samples, maps, _ := strings.Cut(rest, "MAPPED_LIBRARIES:\n")
	locations := map[uint64]*profile.Location{}
	var stack []*profile.Location
	for line := range strings.Lines(samples) {
		line = strings.TrimSpace(line)
		if addresses, ok := strings.CutPrefix(line, "@"); ok {
			if stack, err = stackOf(p, locations, addresses); err != nil {
				return nil, err
			}
			continue
		}
		counts, ok := strings.CutPrefix(line, "t*:")
		if !ok || stack == nil {
			continue // of one thread, or the sum of all
		}
		values, err := countsOf(counts, rate)
		if err != nil {
			return nil, err
		}
		p.Sample = append(p.Sample, &profile.Sample{Location: stack, Value: values})
	}
	if err := p.ParseMemoryMap(strings.NewReader(maps)); err != nil {
		return nil, fmt.Errorf("its list of mapped files cannot be read: %w", err)
	}
	return p, p.CheckValid()
}

func stackOf(p *profile.Profile, known map[uint64]*profile.Location, text string) (stack []*profile.Location, err error) {
	for word := range strings.FieldsSeq(text) {
		address, err := strconv.ParseUint(word, 0, 64)
		if err != nil || address == 0 {
			return nil, fmt.Errorf("%q is no address", word)
		}
		address-- // within the call
		l := known[address]
		if l == nil {
			l = &profile.Location{ID: uint64(len(p.Location) + 1), Address: address}
			p.Location = append(p.Location, l)
			known[address] = l
		}
		stack = append(stack, l)
	}
	return stack, nil
}

// countsOf reads "objects: bytes [objects: bytes]" and corrects for the chance of being sampled.
func countsOf(text string, rate int64) ([]int64, error) {
	var n [4]int64
	if _, err := fmt.Sscanf(strings.TrimSpace(text), "%d: %d [%d: %d]", &n[0], &n[1], &n[2], &n[3]); err != nil {
		return nil, fmt.Errorf("%q are no counts", text)
	}
	for i := 0; i < len(n); i += 2 {
		if n[i] == 0 || rate == 1 {
			continue
		}
		scale := 1 / -math.Expm1(-float64(n[i+1])/float64(n[i])/float64(rate))
		n[i], n[i+1] = int64(math.Round(float64(n[i])*scale)), int64(math.Round(float64(n[i+1])*scale))
	}
	return n[:], nil
}
