package inspect

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/procfs"
)

// startUnder runs a program and waits until its exec is over and its libraries are mapped.
func startUnder(t *testing.T, environ []string, words ...string) int {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for range 500 {
		if name, err := procfs.Live().Comm(cmd.Process.Pid); err == nil && name == filepath.Base(words[0]) {
			if st, err := procfs.Live().Stat(cmd.Process.Pid); err == nil && st.State == "S" {
				return cmd.Process.Pid
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%v did not come to rest", words)
	return 0
}

func installed(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"} {
		files, _ := os.ReadDir(dir) // one of them exists on a machine
		for _, file := range files {
			if s, ok := byLibrary(file.Name()); ok && s.name == name {
				return filepath.Join(dir, file.Name())
			}
		}
	}
	t.Skipf("%s is not installed", name)
	return ""
}

func running(t *testing.T, pid int) Running {
	t.Helper()
	r, err := AllocatorOf(procfs.Live(), pid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAllocatorOfAPlainProgramIsTheCLibrarys(t *testing.T) {
	r := running(t, startUnder(t, []string{"LD_PRELOAD="}, "sleep", "60"))
	if (r.Name != "glibc" || r.Version == "") && r.Name != "musl" || r.How != System || len(r.Others) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestPreloadedAllocatorsAreNamed(t *testing.T) {
	for _, name := range []string{"jemalloc", "tcmalloc", "mimalloc"} {
		t.Run(name, func(t *testing.T) {
			r := running(t, startUnder(t, []string{"LD_PRELOAD=" + installed(t, name)}, "sleep", "60"))
			if r.Name != name || r.How != Preloaded || r.Version == "" || len(r.Others) != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTheFirstOfTwoPreloadedIsTheOneCalled(t *testing.T) {
	je, tc := installed(t, "jemalloc"), installed(t, "tcmalloc")
	r := running(t, startUnder(t, []string{"LD_PRELOAD=" + tc + ":" + je}, "sleep", "60"))
	if r.Name != "tcmalloc" || len(r.Others) != 1 || r.Others[0].Name != "jemalloc" {
		t.Errorf("%+v", r)
	}
}

// As redis-server does: its title takes the place of the environment.
func TestAPreloadIsSeenWhenTheEnvironmentIsOverwritten(t *testing.T) {
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server")
	}
	for _, name := range []string{"tcmalloc", "mimalloc", "jemalloc"} {
		dir := t.TempDir()
		socket := filepath.Join(dir, "s")
		pid := startUnder(t, []string{"LD_PRELOAD=" + installed(t, name)}, redis, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
		waitFor(t, socket)
		if r := running(t, pid); r.Name != name || r.How != Preloaded && r.How != Linked {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func waitFor(t *testing.T, path string) {
	t.Helper()
	for range 500 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not appear", path)
}

func TestStaticAndGoPrograms(t *testing.T) {
	if r := running(t, os.Getpid()); r.Name != "Go" {
		t.Errorf("this test: %+v", r)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "idle.c")
	if err := os.WriteFile(source, []byte("#include <unistd.h>\n#include <stdlib.h>\nint main(void) { return malloc(1) == 0 || sleep(60) != 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	override := filepath.Join("..", "..", "..", "build", "lib", "granary.o")
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"plain", "glibc", nil},
		{"bare", "glibc", []string{"-s"}},
		{"granary", Granary, []string{override}},
		{"granary-bare", Granary, []string{"-s", override}},
	} {
		if len(c.args) > 0 && c.want == Granary {
			if _, err := os.Stat(override); err != nil {
				t.Logf("%s: left out, as the library is not built", c.name)
				continue
			}
		}
		program := filepath.Join(dir, c.name)
		if out, err := exec.Command(cc, append([]string{"-static", "-o", program, source}, c.args...)...).CombinedOutput(); err != nil {
			t.Skipf("no static C library: %v\n%s", err, out)
		}
		if r := running(t, startUnder(t, nil, program)); r.Name != c.want || r.How != Static || c.want == Granary && r.Version == "" {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestMuslPrograms(t *testing.T) {
	cc, err := exec.LookPath("musl-gcc")
	if err != nil {
		t.Skip("there is no musl-gcc")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "idle.c")
	if err := os.WriteFile(source, []byte("#include <unistd.h>\n#include <stdlib.h>\nint main(void) { return malloc(1) == 0 || sleep(60) != 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"shared": nil, "static": {"-static"}} {
		program := filepath.Join(dir, name)
		if out, err := exec.Command(cc, append(args, "-o", program, source)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if r := running(t, startUnder(t, []string{"LD_PRELOAD="}, program)); r.Name != "musl" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAKernelThreadHasNoAllocator(t *testing.T) {
	if name, err := procfs.Live().Comm(2); err != nil || name != "kthreadd" || os.Geteuid() != 0 {
		t.Skip("kernel threads are not visible here")
	}
	if r, err := AllocatorOf(procfs.Live(), 2); err == nil {
		t.Errorf("%+v", r)
	}
}
