package deploy

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/procfs"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

// imageOf is the folder of a system that does not run: a library, a program and a unit.
func imageOf(t *testing.T, service string) string {
	t.Helper()
	root := t.TempDir()
	put(t, filepath.Join(root, "usr/lib/libgranary.so.1"), "", 0o644)
	put(t, filepath.Join(root, "usr/sbin/served"), "#!/bin/sh\n", 0o755)
	put(t, filepath.Join(root, "usr/lib/systemd/system/a.service"), "[Service]\nExecStart=/usr/sbin/served --fast\n"+service, 0o644)
	return root
}

func TestObstaclesAreMessages(t *testing.T) {
	for _, c := range []struct{ library, service, message string }{
		{"/usr/lib/libgranary.so.1", "Type=oneshot\nExecStart=\nExecStart=/bin/true\n", "a.service runs no process of its own: name the unit that does"},
		{"/usr/lib/libgranary.so.1", "ExecStart=\nExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start\n", "pg_ctlcluster passes none of a unit's variables on to PostgreSQL"},
		{"/usr/lib/libgranary.so.1", "RootDirectory=/srv/jail\n", "a.service runs in a root of its own (RootDirectory=/srv/jail)"},
		{"/home/me/libgranary.so", "ProtectHome=true\n", "a.service cannot read home folders (ProtectHome=true), and the library is in one, /home/me/libgranary.so"},
		{"/tmp/libgranary.so", "PrivateTmp=yes\n", "a.service has a /tmp of its own (PrivateTmp=yes), where /tmp/libgranary.so is not"},
		{"/opt/secret/libgranary.so", "User=www\n", "a.service runs as www, who may not read /opt/secret: install it"},
		{"/usr/lib/libgranary.so.1", "ExecStart=\nExecStart=/bin/sh -c 'exec served'\n", "/bin/sh, which a.service starts, is not below "},
		{"/usr/lib/none.so", "User=www\n", "/usr/lib/none.so cannot be read"},
	} {
		root := imageOf(t, c.service)
		put(t, filepath.Join(root, "opt/secret/libgranary.so"), "", 0o644)
		if err := os.Chmod(filepath.Join(root, "opt/secret"), 0o700); err != nil {
			t.Fatal(err)
		}
		u, err := image{root}.find(context.Background(), []string{"a.service"})
		if err != nil {
			t.Fatal(err)
		}
		err = hindered(attempt{root: root, etc: etcUnits, proc: procfs.Live(), unit: u, library: c.library})
		if err == nil || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: it said %v", c.service, err)
		}
	}
	for state, message := range map[string]string{"masked": "a.service is masked", "error": "systemd cannot load a.service (error)"} {
		u := unit{id: "a.service", properties: map[string]string{"LoadState": state}}
		if err := hindered(attempt{unit: u}); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: it said %v", state, err)
		}
	}
}

func TestDropInSaysWhatTheUnitNeeds(t *testing.T) {
	own := dropIn{service: "a", version: "1.2.3", preload: []string{"/opt/x%y/libgranary.so.1", "/usr/lib/libother.so"}, options: `zero:true`, execPaths: []string{"-/opt/x"}}
	path := filepath.Join(t.TempDir(), "a.service.d", dropInName)
	if err := writeFile(path, own.text()); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, "testdata/dropin.golden", []byte(own.text()))
	read, err := readDropIn(path)
	own.version = ""
	if err != nil || fmt.Sprint(read) != fmt.Sprint(own) {
		t.Errorf("read back: %+v, %v", read, err)
	}
	put(t, path, "[Service]\nNice=1\n", 0o644)
	if _, err := readDropIn(path); err == nil || !strings.Contains(err.Error(), "was not written by `granary enable`: move it away") {
		t.Errorf("of a file that `granary enable` did not write it said %v", err)
	}
	if err := removeFile(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Error("the empty folder is still there")
	}
}

func TestOnlyWhatAUnitForbidsIsAllowed(t *testing.T) {
	for _, c := range []struct {
		no, yes, path string
		may           bool
	}{
		{"", "", "/usr/local/lib/l.so", true},
		{"/", "/usr/bin/redis-server /usr/lib /lib", "/usr/local/lib/l.so", false},
		{"/", "/usr/bin/redis-server /usr/lib /lib", "/usr/lib/l.so", true},
		{"/", "/usr/lib", "/usr/library/l.so", false},
		{"/usr/lib/x", "/usr", "/usr/lib/x/l.so", false},
		{"/ /usr", "-/usr/lib/l.so", "/usr/lib/l.so", true},
	} {
		u := unit{properties: map[string]string{"NoExecPaths": c.no, "ExecPaths": c.yes}}
		if got := u.mayExecute(c.path); got != c.may {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestOptionsThatDifferAreNamed(t *testing.T) {
	has := func(name string, value int64, word, source string) []inspect.Option {
		return []inspect.Option{{Name: name, Value: value, Word: word, Source: source}, {Name: "other", Source: "default"}}
	}
	for _, c := range []struct {
		setting string
		options []inspect.Option
		want    string
	}{
		{"", has("decay", 1, "", "default"), ""},
		{"decay:5", has("decay", 5, "", "GRANARY_CONF"), ""},
		{"decay:5", has("decay", 6, "", "GRANARY_CONF"), "decay"},
		{"decay:5", has("decay", 1, "", "default"), "decay"},
		{"", has("decay", 5, "", "GRANARY_CONF"), "decay"},
		{"decay:5", has("decay", 7, "", "granary ctl"), ""},
		{"zero:true", has("zero", 1, "", "GRANARY_CONF"), ""},
		{"zero:1,", has("zero", 0, "", "GRANARY_CONF"), "zero"},
		{"junk:alloc", has("junk", 1, "alloc", "GRANARY_CONF"), ""},
		{"junk:free", has("junk", 1, "alloc", "GRANARY_CONF"), "junk"},
		{"limit:1G", has("limit", 1<<30, "", "GRANARY_CONF"), ""},
	} {
		if got := differing(c.setting, c.options); got != c.want {
			t.Errorf("%q against %+v: %q", c.setting, c.options[0], got)
		}
	}
}

// withoutLoader is a program as if it were static.
func withoutLoader(t *testing.T, path string) string {
	t.Helper()
	text := []byte(readFile(t, path))
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const headerBytes, programBytes = 64, 56
	for i, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			clear(text[headerBytes+i*programBytes:][:4]) // PT_NULL
		}
	}
	return string(text)
}

// command runs `granary NAME args`.
func command(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	for _, row := range Commands {
		if row.Name != name {
			continue
		}
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		act := row.Setup(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := act(context.Background(), cli.Env{Stdout: &out, Stderr: &out, Version: "1.2.3"}, fs.Args())
		return out.String(), err
	}
	t.Fatal("there is no command " + name)
	return "", nil
}

// An image: enable, status, enable again, disable, without anything running.
func TestImageOfASystem(t *testing.T) {
	root := imageOf(t, "User=www\nNoExecPaths=/\nEnvironment=A=1 LD_PRELOAD=/usr/lib/libfirst.so\n")
	put(t, filepath.Join(root, "usr/sbin/served"), withoutLoader(t, "/bin/sh"), 0o755)
	put(t, filepath.Join(root, "usr/lib/libgranary.so.1"), readFile(t, "/bin/sh"), 0o644) // of the same machine and C library
	if err := os.Symlink("a.service", filepath.Join(root, "usr/lib/systemd/system/php8.2-fpm.service")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "usr/lib/systemd/system/b@.service"), "[Service]\nExecStart=/usr/sbin/served\n", 0o644)
	if _, err := command(t, "enable", "a", "--root", root); err == nil || !strings.Contains(err.Error(), "/usr/sbin/served is a static program") {
		t.Fatalf("of a static program it said %v", err)
	}
	put(t, filepath.Join(root, "usr/sbin/served"), readFile(t, "/bin/sh"), 0o755)
	var said strings.Builder
	for _, words := range [][]string{
		{"status"}, {"status", "a"}, {"enable", "a", "--dry-run", "--option", "zero=true"}, {"enable", "a", "--dry-run", "--hardened"},
		{"enable", "a", "--option", "zero=true"}, {"enable", "a", "--option", "zero:true"},
		{"enable", "php-fpm"}, {"enable", "b@one"}, {"status"}, {"disable", "a"}, {"disable", "a.service"}, {"status"}, {"disable"}, {"disable", "--all"}, {"disable", "--all"},
		{"enable", "nginx"}, {"enable", "a.socket"}, {"enable", "a", "--restart"}, {"enable", "a", "--lib", "/none"}, {"enable", "a", "--option", "zero"},
	} {
		out, err := command(t, words[0], append(words[1:], "--root", root)...)
		fmt.Fprintf(&said, "$ granary %s --root ROOT\n%s", strings.Join(words, " "), out)
		if err != nil {
			fmt.Fprintf(&said, "granary: %v\n", err)
		}
	}
	testkit.Check(t, "testdata/image.golden", []byte(strings.ReplaceAll(said.String(), root, "ROOT")))
	put(t, filepath.Join(root, etcUnits, "a.service.d", dropInName), "[Service]\nNice=1\n", 0o644)
	for _, verb := range []string{"enable", "disable"} {
		if _, err := command(t, verb, "a", "--root", root); err == nil || !strings.Contains(err.Error(), "was not written by") {
			t.Errorf("%s of a file that `granary enable` did not write: it said %v", verb, err)
		}
	}
}

func TestRecipesForHostsWithoutSystemd(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "run/openrc/softlevel"), "", 0o644)
	var out bytes.Buffer
	tellRecipes(&out, root, serviceOf("mariadb"), dropIn{preload: []string{"/usr/local/lib/libgranary.so.1"}, options: "dirty_decay_ms:500"})
	testkit.Check(t, "testdata/recipes.golden", out.Bytes())
	for _, long := range testkit.LongerThan(80, out.String()) {
		if strings.HasSuffix(long, ":") { // others hold paths and settings, which are copied
			t.Errorf("more than 80 letters: %q", long)
		}
	}
}
