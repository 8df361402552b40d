package preload

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

const glibcLoader = "/lib64/ld-linux-x86-64.so.2"

// image is the smallest ELF file that says which machine and loader it wants.
func image(t *testing.T, machine elf.Machine, interpreter string) string {
	t.Helper()
	var b bytes.Buffer
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	if interpreter != "" {
		header.Phoff, header.Phnum = 64, 1
	}
	write := func(part any) {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	write(header)
	if interpreter != "" {
		size := uint64(len(interpreter) + 1)
		write(elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 120, Filesz: size, Memsz: size})
		b.WriteString(interpreter + "\x00")
	}
	return b.String()
}

func put(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunRefusesClearly(t *testing.T) {
	dir := t.TempDir()
	library := put(t, dir, "libgranary.so", image(t, elf.EM_X86_64, ""), 0o644)
	dynamic := image(t, elf.EM_X86_64, glibcLoader)
	me := CurrentCredentials()
	stranger := Credentials{UID: me.UID + 1, EUID: me.EUID + 1, GID: me.GID + 1, EGID: me.EGID + 1}
	put(t, dir, "good", dynamic, 0o755)
	static := put(t, dir, "static", image(t, elf.EM_X86_64, ""), 0o755)

	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		caller     Credentials
		code       int
		message    string
	}{
		{"static1", image(t, elf.EM_X86_64, ""), 0o755, me, 125, "is a static program, which no library can be preloaded into; link it with libgranary.a or granary.o"},
		{"arm", image(t, elf.EM_AARCH64, "/lib/ld-linux-aarch64.so.1"), 0o755, me, 125, "is built for another architecture"},
		{"musl", image(t, elf.EM_X86_64, "/lib/ld-musl-x86_64.so.1"), 0o755, me, 125, "uses another C library"},
		{"suid", dynamic, 0o755 | os.ModeSetuid, stranger, 125, "is setuid, so the loader ignores LD_PRELOAD; run it as its owner"},
		{"sgid", dynamic, 0o755 | os.ModeSetgid, stranger, 125, "is setgid, so the loader ignores LD_PRELOAD"},
		{"secure", dynamic, 0o755, Credentials{UID: 1, EUID: 0}, 125, "(AT_SECURE)"},
		{"script", "#!" + static + "\n", 0o755, me, 125, "script runs " + static + ", which is a static program"},
		{"viaenv", "#!/usr/bin/env -S static x\n", 0o755, me, 125, "static, which is a static program"},
		{"orphan", "#!/no/such/shell\n", 0o755, me, 127, "the interpreter of"},
		{"empty", "#!\n", 0o755, me, 126, "has an empty #! line"},
		{"text", "hello", 0o755, me, 126, "is neither an ELF program nor a script"},
		{"plain", dynamic, 0o644, me, 126, "is not executable; `chmod +x` it"},
		{"broken", "\x7fELF", 0o755, me, 125, "damaged ELF headers"},
	} {
		path := put(t, dir, c.name, c.text, c.mode)
		var errs bytes.Buffer
		env := cli.Env{Stdout: io.Discard, Stderr: &errs, Environ: []string{"PATH=" + dir}}
		err := Run(env, c.caller, refuseExec(t), library, []string{path})
		check(t, c.name, err, c.code, c.message)
	}
	env := cli.Env{Stderr: io.Discard, Environ: []string{"PATH=" + dir}}
	check(t, "missing", Run(env, me, refuseExec(t), library, []string{"nobody"}), 127, "nobody is in no folder of PATH")
	check(t, "no path", Run(env, me, refuseExec(t), library, []string{"./nobody"}), 127, "does not exist")
	check(t, "folder", Run(env, me, refuseExec(t), library, []string{dir + "/"}), 126, "is a folder")
	check(t, "nothing", Run(env, me, refuseExec(t), library, []string{}), 125, "say which program to run")
	check(t, "no lib", Run(env, me, refuseExec(t), "/no/lib", []string{"good"}), 125, "--lib names /no/lib, which is not a file")
}

func refuseExec(t *testing.T) Exec {
	return func(path string, _, _ []string) error {
		t.Errorf("%s was started", path)
		return nil
	}
}

func check(t *testing.T, name string, err error, code int, message string) {
	t.Helper()
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Code != code || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v (want code %d and %q)", name, err, code, message)
	}
}

func TestRunStartsTheProgramWithTheLibraryFirst(t *testing.T) {
	dir := t.TempDir()
	library := put(t, dir, "libgranary.so", image(t, elf.EM_X86_64, ""), 0o644)
	program := put(t, dir, "prog", image(t, elf.EM_X86_64, glibcLoader), 0o755)
	var gotPath string
	var gotArgs, gotEnv []string
	exec := func(path string, argv, environ []string) error {
		gotPath, gotArgs, gotEnv = path, argv, environ
		return unix.ENOEXEC
	}
	env := cli.Env{Environ: []string{"PATH=" + dir, "GRANARY_LIB=" + library, "LD_PRELOAD=/x.so"}, Stderr: io.Discard}
	err := Run(env, CurrentCredentials(), exec, "", []string{"prog", "-v", "--", "x"})
	check(t, "exec failed", err, 126, "start "+program)
	if gotPath != program || strings.Join(gotArgs, " ") != "prog -v -- x" {
		t.Errorf("started %s %q", gotPath, gotArgs)
	}
	if last := gotEnv[len(gotEnv)-1]; last != "LD_PRELOAD="+library+":/x.so" {
		t.Errorf("environment ends with %s", last)
	}
}

func TestWithOptionOverridesWhatStandsBefore(t *testing.T) {
	for _, c := range []struct{ before, want []string }{
		{nil, []string{"GRANARY_CONF=hardened:true"}},
		{[]string{"A=b", "GRANARY_CONF="}, []string{"A=b", "GRANARY_CONF=hardened:true"}},
		{[]string{"GRANARY_CONF=hardened:false,retain:false", "A=b"}, []string{"GRANARY_CONF=hardened:false,retain:false,hardened:true", "A=b"}},
	} {
		if got := WithOption(c.before, "hardened:true"); !slices.Equal(got, c.want) {
			t.Errorf("%q with the option is %q, not %q", c.before, got, c.want)
		}
	}
}

func TestOptionsAfterTheProgramAreTheProgrammes(t *testing.T) {
	dir := t.TempDir()
	library := put(t, dir, "libgranary.so", image(t, elf.EM_X86_64, ""), 0o644)
	put(t, dir, "prog", image(t, elf.EM_X86_64, glibcLoader), 0o755)
	for line, want := range map[string]string{
		"run --lib " + library + " prog -v --lib x -- y": "prog -v --lib x -- y",
		"run --lib " + library + " -- prog --help":       "prog --help",
		"run --lib=" + library + " prog":                 "prog",
	} {
		var got []string
		row := Command
		row.Setup = func(fs *pflag.FlagSet) cli.Action {
			return setup(fs, CurrentCredentials(), func(_ string, argv, _ []string) error {
				got = argv
				return unix.ENOEXEC
			})
		}
		env := cli.Env{Environ: []string{"PATH=" + dir}, Stdout: io.Discard, Stderr: io.Discard}
		if code := cli.Main(context.Background(), env, []cli.Command{row}, strings.Fields(line)); code != 126 || strings.Join(got, " ") != want {
			t.Errorf("%s: code %d, started %q", line, code, got)
		}
	}
	if code := cli.Main(context.Background(), cli.Env{Stderr: io.Discard}, []cli.Command{Command}, []string{"run", "--nonsense", "prog"}); code != 125 {
		t.Errorf("a wrong option ends with %d", code)
	}
}

func TestTheLoaderItselfIsReachable(t *testing.T) {
	dir := t.TempDir()
	library := put(t, dir, "libgranary.so", image(t, elf.EM_X86_64, ""), 0o644)
	loader := put(t, dir, "ld-linux-x86-64.so.2", image(t, elf.EM_X86_64, ""), 0o755)
	if err := Check(loader, library, CurrentCredentials(), ""); err != nil {
		t.Error(err)
	}
}

func TestOwnerReadsALiveProcess(t *testing.T) {
	sleep, err := Resolve("sleep", os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sleep, "60")
	cmd.Env = []string{"LD_BIND_NOW=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var owner string
	for range 500 { // until the loader has done its work
		owner, err = Owner(procfs.Live(), cmd.Process.Pid, "malloc")
		if err == nil && strings.HasSuffix(owner, "libc.so.6") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil || !strings.HasSuffix(owner, "libc.so.6") {
		t.Errorf("owner of malloc is %q, %v", owner, err)
	}
	if _, err := Owner(procfs.Live(), cmd.Process.Pid, "no_such_symbol"); err == nil {
		t.Error("a symbol that is not imported has an owner")
	}
}

func TestAStaticProgramWithGranaryIsStartedAsItIs(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	library := testkit.Library(t)
	object := filepath.Join(filepath.Dir(library), "granary.o")
	if _, err := os.Stat(object); err != nil {
		t.Skip("granary.o is not built")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-static", "-o", program, source, object, "-lpthread").CombinedOutput(); err != nil {
		t.Skipf("nothing can be linked statically here: %s", out)
	}
	err = Check(program, library, CurrentCredentials(), "")
	if err == nil || !strings.Contains(err.Error(), "is a static program that has Granary linked in; start it as it is, without `granary run`") {
		t.Errorf("it said %v", err)
	}
}
