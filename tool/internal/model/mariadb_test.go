package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

// program also searches the folder of root's programs.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skip("there is no " + name)
	return ""
}

type server struct{ socket, counts string }

// start runs mariadbd with the counting library.
func start(t *testing.T, data, counter string, options ...string) server {
	t.Helper()
	dir := t.TempDir()
	s := server{filepath.Join(dir, "s"), filepath.Join(dir, "counts")}
	cmd := exec.Command(program(t, "mariadbd"), append([]string{"--no-defaults", "--user=root", "--datadir=" + data, "--socket=" + s.socket, "--skip-networking",
		"--innodb-buffer-pool-size=16M", "--performance-schema=0", "--pid-file=" + filepath.Join(dir, "pid")}, options...)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+counter, "COUNTS="+s.counts)
	testkit.StartProcess(t, cmd)
	for range 400 {
		if s.ask("select 1") == "1" {
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("mariadbd does not answer")
	return s
}

func (s server) ask(statement string) string {
	out, _ := exec.Command("mariadb", "--no-defaults", "-S", s.socket, "-uroot", "-N", "-e", statement).Output() // "" where it fails
	return strings.TrimSpace(string(out))
}

// idle opens more connections that ran a statement and wait; they are all then.
func (s server) idle(t *testing.T, more, all int) {
	t.Helper()
	for range more {
		cmd := exec.Command("mariadb", "--no-defaults", "-S", s.socket, "-uroot")
		if _, err := cmd.StdinPipe(); err != nil { // open until the test ends
			t.Fatal(err)
		}
		testkit.StartProcess(t, cmd)
	}
	for range 200 {
		if s.ask("select count(*) from information_schema.processlist where command = 'Sleep' and time_ms > 300") == fmt.Sprint(all) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%d connections are not idle", all)
}

func (s server) live(t *testing.T) []int64 {
	t.Helper()
	data, err := os.ReadFile(s.counts)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int64, len(data)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return out
}

func TestConnectionsAskForWhatIsReported(t *testing.T) {
	install, data := program(t, "mariadb-install-db"), t.TempDir()
	program(t, "mariadb")
	prepare := exec.Command(install, "--no-defaults", "--user=root", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Skipf("mariadb-install-db: %v\n%s", err, out)
	}
	counter := filepath.Join(t.TempDir(), "count.so")
	if out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", counter, "testdata/mariadb/count.c").CombinedOutput(); err != nil {
		t.Skipf("cc: %v\n%s", err, out)
	}
	other := mariadbSettings{8 << 10, 64 << 10, 16 << 10, usualMariaDB.Stack}
	for _, c := range []struct {
		settings mariadbSettings
		options  []string
	}{{usualMariaDB, nil}, {other, []string{"--net-buffer-length=8192", "--query-alloc-block-size=65536", "--transaction-alloc-block-size=16384"}}} {
		t.Run(fmt.Sprint(c.settings), func(t *testing.T) {
			s := start(t, data, counter, c.options...)
			if version := s.ask("select version()"); !strings.HasPrefix(version, "10.11.") {
				t.Skip("the model is that of 10.11, and this is " + version)
			}
			s.idle(t, few, few)
			before := s.live(t)
			s.idle(t, more, few+more)
			after := s.live(t)
			compare(t, c.settings, before, after)
		})
	}
}

const few, more = 5, 40

func compare(t *testing.T, settings mariadbSettings, before, after []int64) {
	t.Helper()
	want, wantBytes, gotBytes := map[int]float64{}, 0.0, 0.0
	for _, h := range []cost.Heap{settings.Session(), settings.Buffers(), settings.Blocks(), settings.Small()} {
		for size, count := range h {
			usable := cost.Glibc.Place(size).Usable
			want[int(usable/16)] += count
			wantBytes += float64(usable) * count
		}
	}
	for kind := range after {
		got := float64(after[kind]-before[kind]) / more
		gotBytes += got * float64(16*kind+8)
		if math.Abs(got-want[kind]) > 0.1*math.Max(1, want[kind]) && kind > 64 {
			t.Errorf("a connection has %.2f blocks of %d bytes, said is %.0f", got, 16*kind+8, want[kind])
		}
	}
	if math.Abs(gotBytes/wantBytes-1) > 0.01 {
		t.Errorf("a connection has %.0f bytes, said is %.0f", gotBytes, wantBytes)
	}
}
