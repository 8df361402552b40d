package trace

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// recordingWith writes a recording of full buffers, with room for further chunks.
func recordingWith(t *testing.T, most uint64, buffers ...*bufferWriter) string {
	t.Helper()
	data := withBuffers(nil, buffers...)
	h, _ := readRecordingHeader(data)
	h.MaxChunks, h.Buffers, h.PID = most, uint32(len(buffers)), uint64(os.Getpid())
	if _, err := binary.Encode(data, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for row := range buffers {
		binary.LittleEndian.PutUint32(data[bufferTable+4*row:], uint32(row)<<bufferStateBits|bufferFull)
	}
	path := filepath.Join(t.TempDir(), "live.gtr")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(headerBytes+most*chunkBytes)); err != nil {
		t.Fatal(err)
	}
	return path
}

func packerOf(t *testing.T, path string) *livePacker {
	t.Helper()
	p, err := openPacker(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sweep(t *testing.T, p *livePacker) int {
	t.Helper()
	n, err := p.sweep()
	if err != nil {
		t.Error(err)
	}
	return n
}

func TestThePackerKeepsAllEvents(t *testing.T) {
	path := recordingWith(t, 100, buffer(1, 1200).event(4, 0x1000, 0), buffer(1, 1100).event(1, 0x1000, 8).context(1, 1<<30<<6).event(1, 0x2000, 0), buffer(2, 1150))
	before := lines(open(t, path))
	p := packerOf(t, path)
	*p.entry(2) = 2<<bufferStateBits | 1 // a thread writes into it
	if n := sweep(t, p); n != 2 {
		t.Errorf("%d buffers", n)
	}
	if n := sweep(t, p); n != 0 {
		t.Errorf("%d buffers are full again", n)
	}
	if *p.entry(0)&3 != bufferFree || *p.entry(1)&3 != bufferFree || *p.entry(2)&3 != 1 || p.header().Chunks != 2 {
		t.Errorf("%d, %d, %d, %d chunks", *p.entry(0), *p.entry(1), *p.entry(2), p.header().Chunks)
	}
	p.close()
	if after := lines(open(t, path)); after != before || before != "alloc t1 o0, alloc t1 o1, free t1 o0" {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}

func TestThePackerLeavesWhatHasNoRoom(t *testing.T) {
	path := recordingWith(t, 1, buffer(1, 1100).event(1, 0x1000, 8)) // the file's one chunk is that of the buffers
	p := packerOf(t, path)
	if n, err := p.sweep(); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	if *p.entry(0)&3 != bufferFull {
		t.Errorf("state %d", *p.entry(0)&3)
	}
	p.close()
	expect(t, open(t, path), "alloc t1 o0")
}

func TestAWrongTableHarmsNothing(t *testing.T) {
	path := recordingWith(t, 10, buffer(1, 1100).event(1, 0x1000, 8))
	p := packerOf(t, path)
	*p.entry(0) = 1<<31 | bufferFull
	p.header().Buffers = 1 << 31
	if n, err := p.sweep(); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	p.close()
	expect(t, open(t, path), "alloc t1 o0")
}

// Somebody cuts the file: its packer ends, and the command goes on.
func TestAFileThatIsCutEndsThePacker(t *testing.T) {
	path := recordingWith(t, 10, buffer(1, 1100).event(1, 0x1000, 8))
	p := packerOf(t, path)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if n, err := p.sweep(); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	p.close()
}

// lively has two threads that fill many buffers, and ends when its input does.
const lively = `
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void* Fill(void* p) {
  static void* keep[2][1000];
  void** mine = keep[(size_t)p];
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 1000; ++i) mine[i] = malloc(5001 + (size_t)p);
    for (int i = 0; i < 1000; ++i) free(mine[i]);
  }
  return 0;
}
static void Both(void) {
  pthread_t threads[2];
  for (size_t i = 0; i < 2; ++i) pthread_create(&threads[i], 0, Fill, (void*)i);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
}
int main(void) {
  char byte;
  Both();
  while (read(0, &byte, 1) > 0) {}
  Both();
  return 0;
}`

// checkLively checks that no call is missing.
func checkLively(t *testing.T, path string) {
	t.Helper()
	s := summary(t, path)
	for i := range uint64(2) {
		if g := ofSize(s, 5001+i); g.Objects != 100_000 || g.AtEnd != 0 || s.Findings.UnknownFrees != 0 || s.Header.Stopped != "" {
			t.Errorf("%+v, %+v, %+v", g, s.Findings, s.Header)
		}
	}
}

// A packer comes while the program runs, and is killed, so that it closes nothing and leaves buffers as they are.
func TestAProgramOutlivesItsPacker(t *testing.T) {
	program, out := testkit.Compile(t, lively, "-O1", "-pthread"), filepath.Join(t.TempDir(), "lively.gtr")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := openPacker(out)
	for ; err != nil; p, err = openPacker(out) { // until the recorder has made its file
		time.Sleep(time.Millisecond)
	}
	swept := 0
	for swept < 20 {
		swept += sweep(t, p)
		if atomic.LoadUint32(&p.header().Packer) == 0 {
			t.Fatal("the packer is not announced")
		}
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	checkLively(t, out)
}

func TestAProgramWithoutACommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "alone.gtr")
	cmd := exec.Command(testkit.Compile(t, lively, "-O1", "-pthread"))
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testkit.Recorder(t), "GRANARY_RECORD="+out)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	checkLively(t, out)
	if s := summary(t, out); s.Header.Size > 4<<20 {
		t.Errorf("%d bytes are not packed", s.Header.Size)
	}
}

func TestTheCommandPacksWhileTheProgramRuns(t *testing.T) {
	r := recordTrace(t, nil, "--raw", testkit.Compile(t, lively, "-O1", "-pthread"))
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.said)
	}
	checkLively(t, r.out)
}

// A program runs another one in its place, which gets a file of its own at the same path.
func TestThePackerFollowsAProgramThatIsReplaced(t *testing.T) {
	program := testkit.Compile(t, lively, "-O1", "-pthread")
	const runs = `
#include <stdlib.h>
#include <unistd.h>
static void* volatile keep;
int main(int argc, char** argv) { for (int i = 0; i < 5000; ++i) keep = malloc(100); execv(argv[1], argv + 1); return argc; }`
	r := recordTrace(t, nil, testkit.Compile(t, runs), program)
	if r.code != 0 {
		t.Fatalf("code %d: %s", r.code, r.said)
	}
	checkLively(t, r.out)
}

// A child is recorded into a file of its own, which is packed as well.
func TestThePackersFindChildren(t *testing.T) {
	mine := recordingWith(t, 10, buffer(1, 1100).event(1, 0x1000, 8))
	child := recordingWith(t, 10, buffer(1, 1100).event(1, 0x1000, 8))
	paths := []string{mine}
	l := &livePackers{paths: func() []string { return paths }, open: map[string]*livePacker{}, ended: map[string]bool{}, gone: map[string]uint64{}}
	l.look()
	if n := l.sweep(); n != 1 {
		t.Errorf("%d buffers", n)
	}
	paths = append(paths, child, mine+".none")
	l.look()
	if n := l.sweep(); n != 1 || len(l.open) != 2 {
		t.Errorf("%d buffers, %d files", n, len(l.open))
	}
	l.open[child].header().PID, l.open[child].writer = 1<<30, 1<<30 // it has ended
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.look(); len(l.open) != 0 {
		t.Errorf("%d files are packed still", len(l.open))
	}
}

func TestAFileThatCannotBePackedIsLeft(t *testing.T) {
	path := recordingWith(t, 1, buffer(1, 1100).event(1, 0x1000, 8))
	l := &livePackers{paths: func() []string { return []string{path} }, open: map[string]*livePacker{}, ended: map[string]bool{}, gone: map[string]uint64{}}
	for range 3 {
		l.look()
		l.sweep()
	}
	if len(l.open) != 0 || !l.ended[path] {
		t.Errorf("%+v", l)
	}
	expect(t, open(t, path), "alloc t1 o0")
}
