package model

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"

	goredis "github.com/redis/go-redis/v9"
)

// served starts redis-server with a dump, or empty, and waits until it answers. It returns the path of its socket.
func served(t *testing.T, dir string, options ...string) (*goredis.Client, string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	socket := filepath.Join(t.TempDir(), "s")
	testkit.StartProcess(t, exec.Command(path, append([]string{"--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir}, options...)...))
	client := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	for range 300 {
		if err = client.Ping(context.Background()).Err(); err == nil || strings.HasPrefix(err.Error(), "NOAUTH") {
			return client, socket
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(err)
	return nil, ""
}

func used(t *testing.T, client *goredis.Client) float64 {
	t.Helper()
	text, err := client.Info(context.Background(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, "used_memory:"); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no used_memory")
	return 0
}

// mixed fills every type, with values of many sizes.
func mixed(t *testing.T, client *goredis.Client) {
	t.Helper()
	ctx := context.Background()
	pipe := client.Pipeline()
	for i := range 20_000 {
		name := fmt.Sprintf("key:%d", i)
		pipe.Set(ctx, "s"+name, strings.Repeat("x", i%300), 0)
		if i%3 == 0 {
			pipe.Set(ctx, "i"+name, i*1000, time.Hour)
		}
		if i%20 == 0 {
			for j := range i % 400 {
				element := fmt.Sprintf("e%d", j*j)
				pipe.SAdd(ctx, "set"+name, element)
				pipe.ZAdd(ctx, "z"+name, goredis.Z{Score: float64(j) / 3, Member: element})
				pipe.HSet(ctx, "h"+name, element, j)
				pipe.RPush(ctx, "l"+name, element+name)
			}
			pipe.XAdd(ctx, &goredis.XAddArgs{Stream: "stream", Values: []string{"name", name, "i", strconv.Itoa(i)}})
		}
		if pipe.Len() > 1000 {
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}

func usable(d Document) float64 { return d.Allocators[0].Usable }

func TestDumpsAndRunningServers(t *testing.T) {
	dir := t.TempDir()
	client, socket := served(t, dir)
	empty := used(t, client)
	mixed(t, client)
	if err := client.Save(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	dump := filepath.Join(dir, "dump.rdb")
	loaded, _ := served(t, dir)
	want := used(t, loaded) - empty
	d := document(t, "--from", dump, "--allocator", "jemalloc")
	if off := usable(d)/want - 1; math.Abs(off) > 0.01 {
		t.Errorf("dump: %.0f bytes are used after it is loaded, said is %.0f (%+.2f %%)", want, usable(d), 100*off)
	}
	if keys := uint64(20_000 + 6_667 + 4*950 + 1); d.Count != keys || d.Groups == nil {
		t.Errorf("dump: %d keys, want %d", d.Count, keys)
	}
	want = used(t, client) - empty
	for sample, tolerance := range map[string]float64{"100k": 0.02, "16000": 0.1} { // of a part, 10 % is seven standard errors
		d = document(t, "--from", socket, "--allocator", "jemalloc", "--sample", sample)
		if off := usable(d)/want - 1; math.Abs(off) > tolerance {
			t.Errorf("running, %s keys read: %.0f bytes are used, said is %.0f (%+.2f %%)", sample, want, usable(d), 100*off)
		}
	}
}

func TestSourcesThatAreNot(t *testing.T) {
	dir := t.TempDir()
	_, locked := served(t, dir, "--requirepass", "secret")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	_ = listener.Close() // no server answers there now
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for from, want := range map[string]string{
		"":                                "name the data",
		filepath.Join(dir, "none.rdb"):    ": there is no file ",
		dir:                               "is no file: give a dump file or a port",
		write("page.rdb", "<html>"):       "is no dump of Redis or Valkey",
		write("new.rdb", "REDIS0099"):     "is in version 99 of the format",
		write("cut.rdb", "REDIS0012\xfa"): "it is cut",
		port:                              "no server answers at " + port,
		"127.0.0.1:" + port:               "no server answers at 127.0.0.1:" + port,
		locked:                            "asks for a password: set REDISCLI_AUTH",
	} {
		args := []string{"--allocator", "glibc"}
		if from != "" {
			args = append(args, "--from", from)
		}
		out, errs, code := call(t, args...)
		if code == 0 || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d, said %q", from, code, errs)
		}
	}
}

func TestAnEmptyDump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.rdb")
	if err := os.WriteFile(path, []byte("REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := call(t, "--from", path, "--allocator", "glibc,jemalloc")
	if code != 0 || !strings.Contains(out, "0 keys") {
		t.Errorf("code %d, said %q, printed %q", code, errs, out)
	}
	if d := document(t, "--from", path, "--allocator", "glibc"); d.Count != 0 || d.Allocators[0].Holds != 0 {
		t.Errorf("%+v", d)
	}
}
