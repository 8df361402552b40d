package redis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	goredis "github.com/redis/go-redis/v9"
)

// A live server with the model of its release and of its allocator.
type live struct {
	*goredis.Client
	model     Server
	allocator cost.Allocator
	pid       int
}

// servers are the programs to compare with: the installed redis-server and valkey-server, and those that
// GRANARY_REDIS_SERVERS names, separated by colons.
func servers(t testing.TB) []live {
	t.Helper()
	paths := strings.FieldsFunc(os.Getenv("GRANARY_REDIS_SERVERS"), func(r rune) bool { return r == ':' })
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		t.Skip("there is no redis-server and no valkey-server")
	}
	var out []live
	for _, path := range paths {
		l := start(t, path)
		if libraries, _ := filepath.Glob(jemallocs); l.allocator.Name == cost.Glibc.Name && len(libraries) > 0 { // well formed
			// glibc gives the rest of a chunk with it where that is too small to be one, jemalloc gives what was requested.
			l = start(t, preloaded(t, path, libraries[0]))
			l.allocator = cost.Jemalloc
		}
		out = append(out, l)
	}
	return out
}

const jemallocs = "/usr/lib/*/libjemalloc.so.2"

// preloaded is a script that starts a program under an allocator.
func preloaded(t testing.TB, path, library string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(script, []byte("#!/bin/sh\nLD_PRELOAD="+library+" exec "+path+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func start(t testing.TB, path string) live {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--dir", filepath.Dir(socket))
	testkit.StartProcess(t, cmd)
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	l := live{Client: client, pid: cmd.Process.Pid, allocator: cost.Jemalloc}
	var err error
	for range 200 {
		if err = client.Ping(context.Background()).Err(); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	version := strings.SplitN(l.info(t, "redis_version"), ".", 3)
	name := "redis-" + version[0] + "." + version[1]
	if l.info(t, "server_name") == "valkey" {
		name = "valkey-" + strings.Join(strings.SplitN(l.info(t, "valkey_version"), ".", 3)[:2], ".")
	}
	if l.model, err = Find(name); err != nil {
		t.Skipf("%v", err)
	}
	l.allocator = allocatorOf(path, l.info(t, "mem_allocator"))
	return l
}

// allocatorOf is the allocator of a server that names it so.
func allocatorOf(path, name string) cost.Allocator {
	if name == "libc" {
		return cost.Glibc
	}
	if out, err := exec.Command("ldd", path).Output(); err == nil && !strings.Contains(string(out), "jemalloc") {
		return cost.RedisJemalloc
	}
	return cost.Jemalloc
}

// info is a line of INFO.
func (l live) info(t testing.TB, name string) string {
	t.Helper()
	text, err := l.Info(context.Background(), "everything").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (l live) number(t testing.TB, name string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(l.info(t, name), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// a case is a data set, and how its values are made.
var grid = []Spec{
	{Type: "string", Keys: 60_000, Key: Form{Len: 36}, Value: Form{Len: 100}},
	{Type: "string", Keys: 70_000, Key: Form{Len: 16}, Value: Form{Len: 3}},
	{Type: "string", Keys: 20_000, Key: Form{Len: 16}, Value: Form{Len: 1000}},
	{Type: "string", Keys: 3_000, Key: Form{Len: 16}, Value: Form{Len: 9000}},
	{Type: "string", Keys: 65_537, Key: Form{Len: 20}, Value: Form{Ints: true}},
	{Type: "string", Keys: 50_000, Key: Form{Len: 36}, Value: Form{Len: 44}, Expires: 0.5},
	{Type: "list", Keys: 100, Members: 2_000, Key: Form{Len: 16}, Value: Form{Len: 50}},
	{Type: "list", Keys: 5_000, Members: 20, Key: Form{Len: 16}, Value: Form{Len: 20}},
	{Type: "set", Keys: 500, Members: 200, Key: Form{Len: 16}, Member: Form{Len: 12}},
	{Type: "set", Keys: 2_000, Members: 100, Key: Form{Len: 16}, Member: Form{Ints: true}},
	{Type: "set", Keys: 1, Members: 100_000, Key: Form{Len: 16}, Member: Form{Len: 20}},
	{Type: "zset", Keys: 1, Members: 100_000, Key: Form{Len: 16}, Member: Form{Len: 36}},
	{Type: "zset", Keys: 5_000, Members: 20, Key: Form{Len: 16}, Member: Form{Len: 20}},
	{Type: "zset", Keys: 300, Members: 400, Key: Form{Len: 16}, Member: Form{Len: 8}},
	{Type: "hash", Keys: 10_000, Members: 8, Key: Form{Len: 24}, Member: Form{Len: 6}, Value: Form{Len: 20}},
	{Type: "hash", Keys: 4_000, Members: 10, Key: Form{Len: 24}, Member: Form{Len: 6}, Value: Form{Len: 200}},
	{Type: "hash", Keys: 1, Members: 70_000, Key: Form{Len: 24}, Member: Form{Len: 36}, Value: Form{Len: 100}},
	{Type: "hash", Keys: 10_000, Members: 10, Key: Form{Len: 24}, Member: Form{Ints: true}, Value: Form{Ints: true}},
	{Type: "string", Keys: 40_000, Key: Form{Len: 16}, Value: Form{Len: 20}, Expires: 0.3},
	{Type: "set", Keys: 1_000, Members: 235, Key: Form{Len: 16}, Member: Form{Len: 12}},
	{Type: "zset", Keys: 600, Members: 235, Key: Form{Len: 16}, Member: Form{Len: 12}},
	{Type: "hash", Keys: 150, Members: 930, Key: Form{Len: 16}, Member: Form{Len: 12}, Value: Form{Len: 20}},
	{Type: "stream", Keys: 10, Members: 10_000, Fields: 3, Key: Form{Len: 8}, Member: Form{Len: 5}, Value: Form{Len: 10}},
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// word is the i-th of a form: the number in letters, padded.
func (f Form) word(i uint64, r *rand.Rand) string {
	if f.Ints {
		return strconv.FormatUint(i, 10)
	}
	out := make([]byte, f.Len)
	for at := range out {
		out[at] = alphabet[r.IntN(len(alphabet))]
	}
	for at := 0; at < len(out) && i > 0; at++ {
		out[len(out)-1-at] = alphabet[i%26]
		i /= 26
	}
	return string(out)
}

// fill stores the data set over a separate connection.
func (l live) fill(t testing.TB, s Spec) {
	t.Helper()
	ctx := context.Background()
	client := goredis.NewClient(l.Options())
	defer client.Close()
	r := rand.New(rand.NewPCG(1, 2))
	pipe := client.Pipeline()
	flush := func(least int) {
		if pipe.Len() < least {
			return
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.Keys {
		key := s.Key.word(i, r)
		if s.Type == "string" {
			pipe.Set(ctx, key, s.Value.word(i, r), 0)
		}
		for j := range s.Members {
			l.add(ctx, pipe, s, key, j, r)
			flush(1000)
		}
		if float64(i) < s.Expires*float64(s.Keys) {
			pipe.Expire(ctx, key, time.Hour)
		}
		flush(1000)
	}
	flush(1)
}

func (l live) add(ctx context.Context, pipe goredis.Pipeliner, s Spec, key string, j uint64, r *rand.Rand) {
	switch s.Type {
	case "list":
		pipe.RPush(ctx, key, s.Value.word(j, r))
	case "set":
		pipe.SAdd(ctx, key, s.Member.word(j, r))
	case "zset":
		pipe.ZAdd(ctx, key, goredis.Z{Score: float64(j), Member: s.Member.word(j, r)})
	case "hash":
		pipe.HSet(ctx, key, s.Member.word(j, r), s.Value.word(j, r))
	case "stream":
		var values []string
		for f := range s.Fields {
			values = append(values, s.Member.word(f, rand.New(rand.NewPCG(f, 0))), s.Value.word(j, r))
		}
		pipe.XAdd(ctx, &goredis.XAddArgs{Stream: key, ID: fmt.Sprintf("%d-0", firstID+j), Values: values})
	}
}

// settle waits until the main tables are moved and buffers are freed, and says how much is used.
func (l live) settle(t testing.TB) float64 {
	t.Helper()
	before := 0.0
	for range 1200 {
		moved := l.moved(t) // before the figure, which else may be that of the last moment of the move
		now := l.number(t, "used_memory")
		if moved && math.Abs(now-before) < 4096 {
			return now
		}
		before = now
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the main table is still being moved after a minute")
	return 0
}

func (l live) moved(t testing.TB) bool {
	text, err := l.Do(context.Background(), "DEBUG", "HTSTATS", "0").Text()
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(text, "rehashing target")
}

func (s Spec) String() string {
	return fmt.Sprintf("%d %s keys of %d, %d elements of %d%v and %d%v", s.Keys, s.Type, s.Key.Len, s.Members, s.Member.Len, s.Member.Ints, s.Value.Len, s.Value.Ints)
}

// scale makes the data sets larger: GRANARY_MODEL_SCALE, 1 without it.
func scale(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("GRANARY_MODEL_SCALE")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		t.Fatalf("GRANARY_MODEL_SCALE=%s is not a factor", text)
	}
	return n
}

func TestUsedMemoryIsThatOfRealServers(t *testing.T) {
	for _, l := range servers(t) {
		for _, s := range grid {
			s.Server = l.model
			if s.Keys == 1 {
				s.Members *= scale(t)
			} else {
				s.Keys *= scale(t)
			}
			if err := l.FlushAll(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
			before := l.settle(t)
			l.fill(t, s)
			used := l.settle(t) - before
			population, err := s.Population(l.allocator)
			if err != nil {
				t.Fatal(err)
			}
			p := population.Parts()
			got := l.allocator.Of(p.Heap())
			off := got.Usable/used - 1
			t.Logf("%s %-70v %12.0f %+.2f %%", l.model.Name, s, used, 100*off)
			const noise = 32 << 10 // buffers of clients
			if math.Abs(got.Usable-used) > 0.01*used+noise {
				t.Errorf("%s, %v: %.0f bytes are used, said is %.0f (%+.2f %%)", l.model.Name, s, used, got.Usable, 100*off)
				for part, heap := range p {
					t.Logf("    %-50s %v", part, l.allocator.Of(heap).Usable)
				}
			}
		}
	}
}

func TestChangesOfLimitsSaveWhatTheServerSaves(t *testing.T) {
	ctx := context.Background()
	for _, l := range servers(t) {
		// Enough that buffers of clients are a small share of what is saved.
		s := Spec{Server: l.model, Type: "hash", Keys: 9_000, Members: 20, Key: Form{Len: 16}, Member: Form{Len: 8}, Value: Form{Len: 100}}
		measured := func() float64 {
			if err := l.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			before := l.settle(t)
			l.fill(t, s)
			return l.settle(t) - before
		}
		usable := cost.Allocator{Name: "usable", Place: func(n uint64) cost.Place {
			p := l.allocator.Place(n)
			return cost.Place{Usable: p.Usable, Resident: float64(p.Usable)}
		}}
		p, err := s.Population(usable)
		if err != nil {
			t.Fatal(err)
		}
		tables := measured()
		if err := l.ConfigSet(ctx, "hash-max-listpack-value", "128").Err(); err != nil {
			t.Fatal(err)
		}
		saved, found := tables-measured(), false
		for _, c := range p.Changes() {
			if c.Setting == "hash-max-listpack-value" && c.To == 128 {
				found = true
				if math.Abs(c.Saves/saved-1) > 0.02 || c.Keys != 9_000 {
					t.Errorf("%s: %.0f bytes are saved, said is %.0f of %v keys", l.model.Name, saved, c.Saves, c.Keys)
				}
			}
		}
		if !found {
			t.Error("the change is not named")
		}
	}
}
