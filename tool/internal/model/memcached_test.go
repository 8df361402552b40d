package model

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// started runs memcached, and gives a connection to it.
func started(t *testing.T, options ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	path, err := exec.LookPath("memcached")
	if err != nil {
		t.Skip("there is no memcached")
	}
	socket := filepath.Join(t.TempDir(), "s")
	testkit.StartProcess(t, exec.Command(path, append([]string{"-u", "root", "-s", socket, "-m", "512"}, options...)...))
	for range 200 {
		if conn, err := net.Dial("unix", socket); err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			return conn, bufio.NewReader(conn)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("memcached does not answer")
	return nil, nil
}

// stats are the answers to `stats` and to `stats slabs`.
func stats(t *testing.T, conn net.Conn, in *bufio.Reader) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, question := range []string{"stats", "stats slabs"} {
		fmt.Fprintf(conn, "%s\r\n", question)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(line)
			if words[0] == "END" {
				break
			}
			if n, err := strconv.ParseUint(words[len(words)-1], 10, 64); err == nil {
				out[words[1]] = n
			}
		}
	}
	return out
}

func TestItemsLieAsMemcachedLaysThem(t *testing.T) {
	for _, c := range []struct {
		settings          memcachedSettings
		items, key, value uint64
		flags             uint64
		options           []string
	}{
		{usualMemcached, 100_000, 20, 100, 0, nil},
		{usualMemcached, 150_000, 12, 3, 0, nil},
		{usualMemcached, 20_000, 36, 1000, 7, nil},
		{usualMemcached, 300, 36, 200_000, 0, nil},
		{memcachedSettings{1.08, 48, true}, 50_000, 30, 500, 0, []string{"-f", "1.08"}},
		{memcachedSettings{2, 100, false}, 50_000, 30, 500, 3, []string{"-f", "2", "-n", "100", "-C"}},
	} {
		conn, in := started(t, c.options...)
		want, err := c.settings.Lay(c.items, c.key, c.value, c.flags != 0)
		if err != nil {
			t.Fatal(err)
		}
		out := bufio.NewWriter(conn)
		value := strings.Repeat("v", int(c.value))
		for i := range c.items {
			fmt.Fprintf(out, "set %0*d %d 0 %d noreply\r\n%s\r\n", c.key, i, c.flags, c.value, value)
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		var got map[string]uint64
		for range 100 { // a separate thread resizes the table
			if got = stats(t, conn, in); got["hash_is_expanding"] == 0 && got["hash_bytes"] == want.Table {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		class := strconv.Itoa(want.Class) + ":"
		if got["bytes"] != c.items*want.Item || got["hash_bytes"] != want.Table || got[class+"chunk_size"] != want.Chunk || got[class+"chunks_per_page"] != want.PerPage ||
			got[class+"total_pages"] < want.Pages || got[class+"total_pages"] > want.Pages+1 || got["curr_items"] != c.items {
			t.Errorf("%+v: %+v; memcached has %d items of %d bytes in all, a table of %d, chunks of %d, %d a page, %d pages", c, want,
				got["curr_items"], got["bytes"], got["hash_bytes"], got[class+"chunk_size"], got[class+"chunks_per_page"], got[class+"total_pages"])
		}
	}
}
