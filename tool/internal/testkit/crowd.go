package testkit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// source is a program that holds memory (hold KIB), also allocates and frees (work KIB), or keeps COUNT short-lived
// processes that hold memory (churn COUNT KIB).
const source = `
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static char buffer[1 << 16];
static void** blocks;
static void Hold(long kib) {
  blocks = malloc((kib + 1) * sizeof *blocks);
  for (long i = 0; i < kib; ++i) blocks[i] = memset(malloc(1024), 1, 1024);
}
static void Start(char** argv, unsigned number) {
  char life[16];
  snprintf(life, sizeof life, "%u", 500 + number * 7919 % 4000);
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execl(argv[0], argv[0], "short", argv[3], life, (char*)0);
  _exit(1);
}
int main(int argc, char** argv) {
  if (argc > 3 && strcmp(argv[1], "short") == 0) {
    Hold(atol(argv[2]));
    usleep(atoi(argv[3]) * 1000);
    return 0;
  }
  if (argc > 3 && strcmp(argv[1], "churn") == 0) {
    unsigned started = 0;
    for (const unsigned count = atoi(argv[2]); started < count; ++started) Start(argv, started);
    puts("ready"), fflush(stdout);
    for (;; ++started) wait(NULL), Start(argv, started);
  }
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  Hold(atol(argv[2]));
  malloc_info(0, stdout);
  puts("ready"), fflush(stdout);
  if (strcmp(argv[1], "hold") == 0) for (;;) pause();
  for (;; usleep(50000)) free(memset(malloc(3 << 20), 1, 100));
}
`

// A Crowd is many processes of one name under the library.
type Crowd struct {
	Name  string   // which no other process of the machine has
	Stay  []Member // hold memory until the test ends
	churn *exec.Cmd
}

// A Member is a process that stays, with the figures that malloc_info prints in it.
type Member struct {
	PID  int
	Said map[string]uint64
}

// Start starts `stay` processes in the mode hold or work, which run until the test ends; process i holds 100 + i KiB.
// The first `apart` of them have PID namespaces and a /proc of their own. It also keeps `short` processes running that
// live for 0.5 to 4.5 seconds each.
func Start(t testing.TB, mode string, stay, apart, short int) *Crowd {
	t.Helper()
	c := &Crowd{Name: fmt.Sprintf("crowd%d", os.Getpid())}
	compiled := Compile(t, source)
	program := filepath.Join(filepath.Dir(compiled), c.Name)
	if err := os.Rename(compiled, program); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "LD_PRELOAD="+Library(t))
	if short > 0 {
		c.churn = exec.Command(program, "churn", strconv.Itoa(short), "100")
		c.churn.Env = environ
		startMember(t, c.churn)
	}
	for i := range stay {
		cmd := exec.Command(program, mode, strconv.Itoa(100+i))
		if i < apart {
			cmd = exec.Command("unshare", "--mount", "sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh", program, mode, strconv.Itoa(100+i))
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		}
		cmd.Env = environ
		c.Stay = append(c.Stay, Member{Said: startMember(t, cmd), PID: cmd.Process.Pid})
	}
	return c
}

// EndShort ends the processes that do not stay.
func (c *Crowd) EndShort() {
	if c.churn == nil {
		return
	}
	_ = c.churn.Process.Kill() // its children die with it
	_ = c.churn.Wait()
}

var statistic = regexp.MustCompile(`<granary name="([a-z_]+)" unit="[a-z]+" value="([0-9]+)"/>`)

// Apart is how many of n processes can have PID namespaces of their own: ten at most, and none without root.
func Apart(n int) int {
	if os.Geteuid() != 0 {
		return 0
	}
	return min(10, n/2)
}

// Sizes are the numbers of processes to try: $GRANARY_SCALE, as "0,100,500", else 40.
func Sizes(t testing.TB) (sizes []int) {
	t.Helper()
	text := os.Getenv("GRANARY_SCALE")
	if text == "" {
		text = "40"
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("GRANARY_SCALE=%s: give numbers as 0,100,500", text)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// Usage is the CPU time, the resident memory and the peak resident memory of a process.
type Usage struct {
	CPUSeconds float64
	RSS, Peak  uint64
}

// UsageOf reads the usage of a process.
func UsageOf(t testing.TB, pid int) Usage {
	t.Helper()
	stat, err := procfs.Live().Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := procfs.Live().Memory(pid)
	if err != nil {
		t.Fatal(err)
	}
	return Usage{stat.CPUSeconds(), memory.RSS, memory.Peak}
}

// startMember starts a process and reads what it prints until it is ready.
func startMember(t testing.TB, cmd *exec.Cmd) map[string]uint64 {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	StartProcess(t, cmd)
	said := map[string]uint64{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return said
		}
		if m := statistic.FindStringSubmatch(lines.Text()); m != nil {
			said[m[1]], _ = strconv.ParseUint(m[2], 10, 64) // the expression matches digits
		}
	}
	t.Fatal("a process of the crowd ended too early")
	return nil
}
