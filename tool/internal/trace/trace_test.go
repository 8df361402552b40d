package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

// A chunkWriter writes events as the recorder's encoder does, but independently of the decoder.
type chunkWriter struct {
	data    []byte
	address uint64
}

func chunk(thread uint32, ticks uint64) *chunkWriter {
	c := &chunkWriter{data: binary.LittleEndian.AppendUint32(nil, thread)}
	c.data = binary.LittleEndian.AppendUint64(append(c.data, 0, 0, 0, 0), ticks)
	return c
}

func (c *chunkWriter) event(kind uint8, ticks uint64, address uint64, numbers ...uint64) *chunkWriter {
	if ticks < 31 {
		c.data = append(c.data, kind|uint8(ticks)<<3)
	} else {
		c.data = binary.AppendUvarint(append(c.data, kind|31<<3), ticks)
	}
	for _, n := range numbers {
		c.data = binary.AppendUvarint(c.data, n)
	}
	c.data = binary.AppendVarint(c.data, int64(address/8)-int64(c.address/8))
	c.address = address
	return c
}

func file(chunks ...*chunkWriter) []byte {
	h := recordingHeader{Version: 1, ChunkBytes: 64 << 10, Chunks: uint64(len(chunks)), MaxChunks: 100, Sample: 1, PID: 7,
		First: stamp{Ticks: 1000, Nanoseconds: 5_000_000}, Last: stamp{Ticks: 2000, Nanoseconds: 6_000_000}} // a tick is 1 µs
	copy(h.Magic[:], "granrec\n")
	copy(h.Program[:], "/bin/program")
	out, _ := binary.Append(nil, binary.LittleEndian, h)
	out = append(out, make([]byte, 64<<10-len(out))...)
	for _, c := range chunks {
		out = append(out, c.data...)
		out = append(out, make([]byte, 64<<10-len(c.data))...)
	}
	return out
}

func parse(t testing.TB, data []byte) *Trace {
	t.Helper()
	tr, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// lines writes events as text: kind, thread, object, size, and the object that ends.
func lines(tr *Trace) string {
	var out []string
	for e := range tr.Events() {
		line := e.Kind.String() + " t" + string(rune('0'+e.Thread)) + " o" + string(rune('0'+e.Object))
		if e.Kind == Realloc {
			line += " was o" + string(rune('0'+e.Old.Number))
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, tr *Trace, want string) {
	t.Helper()
	if got := lines(tr); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

func TestCallsOfOneThread(t *testing.T) {
	c := chunk(0, 1000).event(1, 5, 0x1000, 100).event(2, 40, 0x2000, 50).event(3, 0, 0x3000, 64, 6).
		event(5, 1, 0x1000).event(6, 1, 0x5000, 300).event(4, 0, 0x2000)
	tr := parse(t, file(c))
	expect(t, tr, "alloc t0 o0, zeroed t0 o1, alloc t0 o2, realloc t0 o3 was o0, free t0 o1")
	events := slices.Collect(tr.Events())
	want := Event{Time: 47 * time.Microsecond, Kind: Realloc, Object: 3, Size: 300, Align: 1, Old: Object{Size: 100, Born: 5 * time.Microsecond}}
	if events[3] != want || events[2].Align != 64 || events[4].Old.Size != 50 {
		t.Errorf("%+v", events)
	}
	if tr.Header.Program != "/bin/program" || tr.Header.Length != time.Millisecond || len(tr.Findings.Damage) != 0 {
		t.Errorf("%+v %+v", tr.Header, tr.Findings)
	}
}

// Both threads' events have the same time: the address says which was first.
func TestOrderBetweenThreads(t *testing.T) {
	frees := chunk(0, 1000).event(4, 0, 0x1000).event(1, 0, 0x2000, 8).event(4, 0, 0x1000)
	allocates := chunk(1, 1000).event(1, 0, 0x1000, 1).event(1, 0, 0x1000, 2).event(4, 0, 0x2000)
	tr := parse(t, file(frees, allocates))
	expect(t, tr, "alloc t1 o0, free t0 o0, alloc t0 o1, alloc t1 o2, free t0 o2, free t1 o1")
	if tr.Findings.UnknownFrees+tr.Findings.MissingFrees != 0 {
		t.Errorf("%+v", tr.Findings)
	}
}

// Thread 0 frees and allocates the address, then thread 1 frees it; but its free is the first that fits.
func TestFreeIsTakenTooEarly(t *testing.T) {
	other := chunk(0, 1000).event(1, 0, 0x2000, 1).event(4, 1, 0x1000)
	first := chunk(1, 1000).event(1, 0, 0x1000, 1).event(4, 1, 0x1000).event(1, 0, 0x1000, 2).event(1, 50, 0x3000, 3)
	tr := parse(t, file(other, first))
	expect(t, tr, "alloc t0 o0, alloc t1 o1, free t0 o1, alloc t1 o2, free t1 o2, alloc t1 o3")
	if tr.Findings.UnknownFrees+tr.Findings.MissingFrees != 0 {
		t.Errorf("%+v", tr.Findings)
	}
}

// Thread 1 allocates and frees the address, then thread 0 allocates it; but its allocation is the first that fits.
func TestAllocationIsTakenTooEarly(t *testing.T) {
	other := chunk(0, 1000).event(1, 0, 0x1000, 1).event(4, 60, 0x1000)
	first := chunk(1, 1000).event(1, 0, 0x1000, 2).event(4, 0, 0x1000).event(1, 50, 0x3000, 3)
	tr := parse(t, file(other, first))
	expect(t, tr, "alloc t0 o0, alloc t1 o1, free t1 o1, alloc t1 o2, free t0 o0")
	if tr.Findings.UnknownFrees+tr.Findings.MissingFrees != 0 {
		t.Errorf("%+v", tr.Findings)
	}
}

// While realloc moves an object, another thread gets its old address.
func TestAddressIsUsedAgainDuringRealloc(t *testing.T) {
	moves := chunk(0, 1000).event(1, 0, 0x1000, 1).event(5, 10, 0x1000).event(6, 10, 0x2000, 9)
	other := chunk(1, 1000).event(1, 15, 0x1000, 2)
	expect(t, parse(t, file(moves, other)), "alloc t0 o0, alloc t1 o1, realloc t0 o2 was o0")
}

func TestFailedRealloc(t *testing.T) {
	c := chunk(0, 1000).event(1, 0, 0x1000, 1).event(5, 0, 0x1000).event(6, 0, 0, 1<<40).event(4, 0, 0x1000)
	expect(t, parse(t, file(c)), "alloc t0 o0, free t0 o0")
}

// A sample holds the halves of a realloc apart.
func TestHalvesOfRealloc(t *testing.T) {
	c := chunk(0, 1000).event(1, 0, 0x1000, 1).event(5, 0, 0x1000).event(1, 0, 0x3000, 1).event(6, 0, 0x2000, 5)
	expect(t, parse(t, file(c)), "alloc t0 o0, free t0 o0, alloc t0 o1, alloc t0 o2")
}

// overwrittenAt is where the header says which events are overwritten.
const overwrittenAt = 104 + 2*1024

// Of a recording whose beginning is overwritten, what came before the last overwritten event is left out.
func TestTheBeginningIsOverwritten(t *testing.T) {
	a := chunk(0, 1000).event(1, 0, 0x1000, 100).event(5, 10, 0x1000).event(6, 10, 0x2000, 200)
	b := chunk(1, 1005).event(1, 0, 0x3000, 300).event(4, 20, 0x2000).event(4, 10, 0x3000)
	data := file(a, b)
	binary.LittleEndian.PutUint32(data[8:], 3)
	binary.LittleEndian.PutUint64(data[overwrittenAt:], 1010)
	tr := parse(t, data)
	var kinds []Kind
	for e := range tr.Events() {
		kinds = append(kinds, e.Kind)
		if e.Time < 10*time.Microsecond || e.Time > 30*time.Microsecond {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(kinds, []Kind{Alloc, Free}) || tr.Findings.UnknownFrees != 1 {
		t.Errorf("%v, %+v", kinds, tr.Findings)
	}
	h := tr.Header
	if h.Overwritten != 10*time.Microsecond || h.Length != 990*time.Microsecond {
		t.Errorf("%+v", h)
	}
}

func TestThreadsShareAChunk(t *testing.T) {
	c := chunk(0, 1000).event(1, 1, 0x1000, 1)
	c.data = binary.AppendUvarint(append(c.data, 7, 5), 1500)
	c.address = 0
	c.event(4, 1, 0x1000)
	tr := parse(t, file(c))
	expect(t, tr, "alloc t0 o0, free t5 o0")
	for e := range tr.Events() {
		if e.Kind == Free && e.Time != 501*time.Microsecond {
			t.Errorf("%+v", e)
		}
	}
}

func TestIncompleteTraces(t *testing.T) {
	c := chunk(0, 1000).event(4, 0, 0x9000).event(1, 0, 0x1000, 1).event(1, 100, 0x1000, 2)
	tr := parse(t, file(c))
	expect(t, tr, "alloc t0 o0, free t0 o0, alloc t0 o1")
	if tr.Findings.UnknownFrees != 1 || tr.Findings.MissingFrees != 1 {
		t.Errorf("%+v", tr.Findings)
	}
}

func TestDamageKeepsWhatIsGood(t *testing.T) {
	good := chunk(0, 1000).event(1, 0, 0x1000, 1)
	bad := chunk(1, 1000).event(1, 0, 0x2000, 1)
	bad.data = append(bad.data, 0xf8) // a first byte of no kind
	tr := parse(t, file(good, bad))
	expect(t, tr, "alloc t0 o0, alloc t1 o1")
	if d := tr.Findings.Damage; len(d) != 1 || !strings.Contains(d[0], "chunk 1 is corrupted at byte 20") {
		t.Errorf("%q", d)
	}
	whole := file(good, good)
	tr = parse(t, whole[:len(whole)-1])
	if lines(tr) != "alloc t0 o0" || len(tr.Findings.Damage) != 1 || !strings.Contains(tr.Findings.Damage[0], "it has 1 of 2 chunks") {
		t.Errorf("%s %q", lines(tr), tr.Findings.Damage)
	}
}

func TestUnreadableFiles(t *testing.T) {
	future := file()
	future[8] = recordingVersion + 1
	wrong := file()
	wrong[12] = 1
	for message, data := range map[string][]byte{
		"it is no trace": []byte("hello, world, this is text"),
		"it is cut":      file()[:3000],
		fmt.Sprintf("version %d of the recording format, this command reads up to version %d", recordingVersion+1, recordingVersion): future,
		"its header is corrupted":   wrong,
		"it is cut inside":          []byte(packedMagic + "\x01"),
		"version 9 of the trace":    []byte(packedMagic + "\x09\x00\x00\x00\x00\x00\x00\x00"),
		"its header is corrupted: ": []byte(packedMagic + "\x01\x00\x00\x00\x01\x00\x00\x00{"),
	} {
		if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", message, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(empty); err == nil || !strings.Contains(err.Error(), "is no trace") {
		t.Error(err)
	}
}

// mixed is a recording with every kind of event, whose threads free each other's objects.
func mixed() []byte {
	a, b := chunk(0, 1000), chunk(1, 1000)
	for i := range uint64(500) {
		address := 0x10000 + i*64
		a.event(1, i%3, address, i*i)
		b.event(3, i%40, 0x900000+i*4096, i, 12)
		if i%2 == 1 {
			b.event(4, 500, address)
			a.event(5, 400, 0x10000+(i-1)*64)
			a.event(6, 1, 0x10000+(i-1)*64, i)
		}
	}
	return file(a, b)
}

func pack(t testing.TB, tr *Trace) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := Pack(&out, tr); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPackedTraceHoldsTheSame(t *testing.T) {
	tr := parse(t, mixed())
	data := pack(t, tr)
	packed := parse(t, data)
	got, want := slices.Collect(packed.Events()), slices.Collect(tr.Events())
	if len(want) != 1500 || !reflect.DeepEqual(got, want) {
		i := 0
		for ; i < min(len(got), len(want))-1 && got[i] == want[i]; i++ {
		}
		t.Fatalf("%d events, want %d; event %d is %+v, want %+v", len(got), len(want), i, got[i], want[i])
	}
	if !reflect.DeepEqual(packed.Findings, tr.Findings) || packed.Header.Program != tr.Header.Program || packed.Header.Length != tr.Header.Length {
		t.Errorf("%+v %+v", packed.Header, packed.Findings)
	}
	for length := range data { // cut anywhere
		if cut, err := Parse(data[:length]); err == nil {
			n := len(slices.Collect(cut.Events()))
			if len(cut.Findings.Damage) != 1 || n != 0 && n != len(want) {
				t.Fatalf("cut at %d: %d events, %q", length, n, cut.Findings.Damage)
			}
		}
	}
	damaged := bytes.Clone(data)
	damaged[len(data)/2] ^= 1
	bad := parse(t, damaged)
	if n := len(slices.Collect(bad.Events())); n != 0 || !strings.Contains(bad.Findings.Damage[0], "its checksum differs") {
		t.Errorf("%d events, %q", n, bad.Findings.Damage)
	}
}

func TestSummary(t *testing.T) {
	a := chunk(0, 1000).event(1, 0, 0x1000, 100).event(1, 0, 0x2000, 100).event(1, 10, 0x3000, 5000)
	b := chunk(1, 1020).event(4, 0, 0x1000).event(4, 20, 0x3000).event(1, 5, 0x4000, 1)
	s := Summarize(parse(t, file(a, b)))
	if s.Events != 6 || s.Objects != 4 || s.Bytes != 5201 || s.Frees != 2 || s.Remote != 2 || s.Threads != 2 {
		t.Errorf("%+v", s)
	}
	if s.Peak != (Live{Time: 10 * time.Microsecond, Objects: 3, Bytes: 5200}) || s.End.Objects != 2 || s.End.Bytes != 101 {
		t.Errorf("peak %+v, end %+v", s.Peak, s.End)
	}
	hundred := s.BySize[1]
	if hundred.Size != 100 || hundred.Objects != 2 || hundred.AtPeak.Objects != 2 || hundred.AtEnd != 1 || hundred.Remote != 1 {
		t.Errorf("%+v", hundred)
	}
	if half := hundred.Half; half < 20*time.Microsecond || half > 40*time.Microsecond {
		t.Errorf("an object of 20 µs: %v", half)
	}
}

// FuzzParse: in any file each object begins once and ends at most once, after its begin.
func FuzzParse(f *testing.F) {
	recorded := mixed()
	tr, err := Parse(recorded)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack(f, tr), uint64(0))
	f.Add(recorded[64<<10:66<<10], uint64(0))
	f.Add(recorded[128<<10:130<<10], uint64(0))
	f.Add(stacked()[64<<10:66<<10], uint64(0))
	f.Add(pack(f, parse(f, stacked())), uint64(0))
	f.Add(recorded[64<<10:66<<10], uint64(1500))
	f.Add(partlyWritten()[64<<10:66<<10], uint64(0))
	f.Add(pack(f, parse(f, partlyWritten())), uint64(0))
	f.Add(buffer(0, 1000).event(1, 0x10000, 8).context(0, 1100).context(1, 70000<<6).event(6, 0x20000, 0).event(4, 0x10000, 0).data, uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, overwritten uint64) {
		if !hasMagic(data, packedMagic) { // the header is not the interesting part
			bodies := []*chunkWriter{{data: data[:min(len(data), 64<<10)]}, chunk(1, 1000).event(4, 0, 0x10000)}
			data = file(bodies...)
			binary.LittleEndian.PutUint64(data[overwrittenAt:], overwritten)
			data[8] = 5
		}
		tr, err := Parse(data)
		if err != nil {
			return
		}
		live := map[uint64]bool{}
		next := uint64(0)
		for e := range tr.Events() {
			if e.Ends() && !live[e.Old.Number] {
				t.Fatalf("%+v: not live", e)
			}
			if e.Ends() {
				delete(live, e.Old.Number)
			}
			if e.Begins() && e.Object != next {
				t.Fatalf("%+v: not object %d", e, next)
			}
			if e.Begins() {
				live[next] = true
				next++
			}
		}
	})
}

func TestChangesBetweenTraces(t *testing.T) {
	before := Summarize(parse(t, file(chunk(0, 1000).event(1, 0, 0x1000, 10).event(1, 0, 0x2000, 500).event(1, 0, 0x3000, 7))))
	after := Summarize(parse(t, file(chunk(0, 1000).event(1, 0, 0x1000, 10).event(1, 0, 0x2000, 10).event(1, 0, 0x4000, 800).event(1, 0, 0x3000, 7))))
	changes := Changes(before, after, orders["peak"])
	var sizes []uint64
	for _, c := range changes {
		sizes = append(sizes, c.Size)
	}
	if !slices.Equal(sizes, []uint64{800, 500, 10}) || changes[2].Before.Objects != 1 || changes[2].After.Objects != 2 {
		t.Errorf("%+v", changes)
	}
	var out bytes.Buffer
	writeDiff(&out, before, after, changes[:2], "peak")
	for _, want := range []string{"peak live  ", "517 B", "827 B", "+60.0 %", "800", "new", "-100.0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// call runs one of the commands.
func call(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	i := slices.IndexFunc(Commands, func(c cli.Command) bool { return c.Name == name })
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	act := Commands[i].Setup(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out}, flags.Args())
	return out.String(), err
}

func TestCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.gtr")
	if err := os.WriteFile(path, mixed(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"trace info": "1,250, 40 MiB requested", "trace top": "LIVE AT PEAK", "trace lifetimes": "REMOTE", "trace threads": "FREED BY", "trace bound": "PLACED",
	} {
		if out, err := call(t, name, path); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.gtr")
	if err := os.WriteFile(empty, file(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, "trace info", empty); err != nil || !strings.Contains(out, "64 KiB without an event") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := call(t, "trace diff", path, path); err != nil || !strings.Contains(out, "Sizes by peak") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range Commands {
		files := []string{path, path}[:1+strings.Count(c.Usage, "AFTER")]
		out, err := call(t, c.Name, append(files, "--json")...)
		if err != nil || !json.Valid([]byte(out)) || len(out) < 20 {
			t.Errorf("%s --json: %v %.300s", c.Name, err, out)
		}
	}
	if _, err := call(t, "trace top", path, "--by", "colour"); err == nil || !strings.Contains(err.Error(), "--by colour is no order") {
		t.Error(err)
	}
	if out, err := call(t, "trace info", "--json", path); err != nil || !strings.Contains(out, `"objects": 1250`) {
		t.Errorf("%v\n%.300s", err, out)
	}
}
