package options

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/testkit"

	"github.com/spf13/pflag"
)

func TestTheTableIsThatOfTheLibrary(t *testing.T) {
	library, err := inspect.OpenLibrary(testkit.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	table := Table()
	if len(table) != len(library.Options) {
		t.Fatalf("%d options, the library has %d", len(table), len(library.Options))
	}
	for i, want := range library.Options {
		got := table[i]
		if got.Name != want.Name || got.Meaning != want.Help || got.AtRunTime != want.AtRunTime || got.Default != want.Text(want.Default) {
			t.Errorf("%+v, the library has %+v", got, want)
		}
		bounds := strconv.FormatInt(want.Lowest, 10) + " to " + strconv.FormatInt(want.Highest, 10)
		if named := inspect.Words(want.Name); len(named) > 0 {
			bounds = strings.Join(named, ", ")
		} else if want.Type == "bool" {
			bounds = "true, false"
		} else if want.Type == "PathSize" {
			bounds = "an absolute path of at most 180 letters"
		}
		if got.Values != bounds {
			t.Errorf("%s: values %q, not %q", got.Name, got.Values, bounds)
		}
		if (got.Unit == "milliseconds") != strings.HasSuffix(got.Name, "_ms") {
			t.Errorf("%s: unit %q", got.Name, got.Unit)
		}
	}
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	fs := pflag.NewFlagSet("options", pflag.ContinueOnError)
	act := Command.Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := act(context.Background(), cli.Env{Stdout: &out}, fs.Args())
	return out.String(), err
}

func TestTheListNamesEveryOptionWithin80Columns(t *testing.T) {
	out, err := run(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range Table() {
		if !strings.Contains("\n"+out, "\n"+o.Name+":") {
			t.Errorf("%s is not listed", o.Name)
		}
	}
	for line := range strings.Lines(out) {
		if len(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestAnOptionIsFoundByTheNamesOfOtherAllocators(t *testing.T) {
	for name, want := range map[string]string{
		"dirty_decay_ms": "dirty_decay_ms", "lg_tcache_max": "cache_max", "thp": "huge_pages",
		"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "cache_bytes",
	} {
		out, err := run(t, name)
		if err != nil || !strings.HasPrefix(out, want+"\n") {
			t.Errorf("%s: %v, printed %q", name, err, out)
		}
	}
	out, _ := run(t, "hard_limit")
	for _, want := range []string{"units: KiB, MiB", "hard_limit:VALUE", "change it"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	_, err := run(t, "dirty_dekay_ms")
	if err == nil || err.Error() != `there is no option "dirty_dekay_ms"; did you mean "dirty_decay_ms"? (`+"`granary options` lists them)" {
		t.Errorf("said %v", err)
	}
}
