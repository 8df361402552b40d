package trace

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// longAndShort allocates long-lived and short-lived objects in turn.
func longAndShort(pairs int) []byte {
	var chunks []*chunkWriter
	c := chunk(0, 1000)
	event := func(kind uint8, address uint64, numbers ...uint64) {
		if len(c.data) > 60<<10 {
			chunks = append(chunks, c)
			c = chunk(0, c.ticks(1000))
		}
		c.event(kind, 1, address, numbers...)
	}
	for i := range pairs {
		event(1, uint64(0x10000+i*128), 64)
		event(1, uint64(0x10000+i*128+64), 64)
	}
	for i := range pairs {
		event(4, uint64(0x10000+i*128+64))
	}
	return file(append(chunks, c)...)
}

// ticks is the time after the chunk's events, which are a tick apart.
func (c *chunkWriter) ticks(begin uint64) uint64 { return begin + uint64(len(c.data)) }

func TestObjectsThatEndTogetherArePlacedTogether(t *testing.T) {
	const pairs = 10_000
	b := BoundOf(parse(t, longAndShort(pairs)))
	if b.Live.Peak != pairs*128 || b.Live.End != pairs*64 {
		t.Errorf("live %+v", b.Live)
	}
	// First fit would leave a long-lived object on each page.
	if least := uint64(pairs * 64); b.Placed.End < least || b.Placed.End > least+least/20 {
		t.Errorf("%d bytes at the end, of %d live", b.Placed.End, least)
	}
	if b.LowestPeak < b.Live.Peak || b.LowestPeak > b.Live.Peak+b.Live.Peak/10 {
		t.Errorf("peak %d, of %d live", b.LowestPeak, b.Live.Peak)
	}
	if b.Placed.Mean < b.Live.Mean || b.Placed.Mean > 1.2*b.Live.Mean {
		t.Errorf("mean %.0f, of %.0f live", b.Placed.Mean, b.Live.Mean)
	}
}

// Whatever the trace, live objects do not overlap, and the resident pages are those that they are on.
func TestPlacementsAreValid(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	events, deaths := randomLife(random, 4000)
	for _, fine := range finenesses {
		p := newPlacement(fine, deaths)
		for i, e := range events {
			p.event(e)
			if i%50 == 0 {
				checkPlacement(t, p)
			}
		}
		checkPlacement(t, p)
	}
}

// randomLife is events of objects of random sizes and lifetimes, with the number of the event that ends each.
func randomLife(random *rand.Rand, objects int) (events []Event, deaths []uint64) {
	var live []Object
	for len(deaths) < objects || len(live) > 100 {
		if len(live) > 0 && random.IntN(objects) < len(deaths) {
			i := random.IntN(len(live))
			deaths[live[i].Number] = uint64(len(events))
			events = append(events, Event{Kind: Free, Old: live[i]})
			live = slices.Delete(live, i, i+1)
			continue
		}
		if len(deaths) == objects {
			continue
		}
		o := Object{Number: uint64(len(deaths)), Size: uint64(random.IntN(1 << random.IntN(16)))}
		events = append(events, Event{Kind: Alloc, Object: o.Number, Size: o.Size, Align: 1 << random.IntN(8)})
		live, deaths = append(live, o), append(deaths, never)
	}
	return events, deaths
}

func checkPlacement(t *testing.T, p *placement) {
	t.Helper()
	type page struct {
		region *region
		number uint64
	}
	pages := map[page]bool{}
	byRegion := map[*region][]placed{}
	for _, o := range p.live {
		byRegion[o.region] = append(byRegion[o.region], o)
		for n := o.at / pageBytes; n <= (o.at+o.size-1)/pageBytes; n++ {
			pages[page{o.region, n}] = true
		}
	}
	if p.resident != uint64(len(pages)) {
		t.Fatalf("%d resident pages, live objects are on %d", p.resident, len(pages))
	}
	for _, objects := range byRegion {
		slices.SortFunc(objects, func(a, b placed) int { return int(a.at) - int(b.at) })
		for i := range objects[1:] {
			if objects[i].at+objects[i].size > objects[i+1].at {
				t.Fatalf("%+v overlaps %+v", objects[i], objects[i+1])
			}
		}
	}
}

func TestCourse(t *testing.T) {
	var c Course
	c.add(time.Second, 100)
	c.add(2*time.Second, 300)
	c.add(4*time.Second, 0)
	c.finish()
	if c.Peak != 300 || c.End != 0 || c.Mean < 233 || c.Mean > 234 {
		t.Errorf("%+v", c)
	}
	if len(c.Points) > coursePoints || len(c.Points) < coursePoints/2 || slices.Max(c.Points) != 300 {
		t.Errorf("%d points", len(c.Points))
	}
}

func TestPairsOfThreads(t *testing.T) {
	a := chunk(0, 1000).event(1, 0, 0x1000, 100).event(1, 0, 0x2000, 100).event(4, 10, 0x2000)
	b := chunk(1, 1020).event(4, 0, 0x1000)
	pairs := PairsOf(parse(t, file(a, b)))
	if want := []Pair{{0, 0, 1, 100}, {0, 1, 1, 100}}; !slices.Equal(pairs, want) {
		t.Errorf("%+v", pairs)
	}
}

func TestTracesAreDrawn(t *testing.T) {
	dir := t.TempDir()
	path, picture := filepath.Join(dir, "trace.gtr"), filepath.Join(dir, "picture.svg")
	if err := os.WriteFile(path, longAndShort(1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"trace bound": "placed by known ends", "trace lifetimes": "up to 64 B"} {
		if out, err := call(t, name, path, "--svg", picture); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		svg, err := os.ReadFile(picture)
		if err != nil || !bytes.Contains(svg, []byte(want)) {
			t.Errorf("%s: no %q: %v", name, want, err)
		}
		if _, err := call(t, name, path, "--svg", filepath.Join(dir, "none", "picture.svg")); err == nil || !strings.Contains(err.Error(), "draw the trace") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
