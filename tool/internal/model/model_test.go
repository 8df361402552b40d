package model

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/testkit"
)

func call(t *testing.T, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Main(context.Background(), cli.Env{Stdout: &out, Stderr: &errs}, Commands, append([]string{"model"}, args...))
	return out.String(), errs.String(), code
}

func document(t *testing.T, args ...string) Document {
	t.Helper()
	out, errs, code := call(t, append(args, "--json")...)
	if code != 0 {
		t.Fatalf("%v: %s", args, errs)
	}
	var d Document
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d Document) fact(name string) float64 {
	for _, f := range d.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return math.NaN()
}

func TestTotalsOfTheLargeTree(t *testing.T) {
	d := document(t, "rax", "--keys", "45M", "--key", "{hex:32}", "--slots", "5461", "--lib", testkit.Library(t))
	if n := d.fact("nodes"); d.Count != 15_001_367 || math.Abs(n/35_066_975-1) > 0.0001 {
		t.Errorf("%d keys, %.0f nodes", d.Count, n)
	}
	// The memory of the real tree of these keys under each allocator, in one run.
	measured := map[string]float64{"glibc": 1_589_923_840, "jemalloc": 1_119_227_904, "granary": 1_112_682_496}
	for _, r := range d.Allocators {
		if want := measured[r.Allocator]; want != 0 && math.Abs(r.Resident/want-1) > 0.03 {
			t.Errorf("%s: %.0f bytes are resident, measured were %.0f", r.Allocator, r.Resident, want)
		}
	}
}

func TestPrintedPages(t *testing.T) {
	for name, args := range map[string]string{
		"strings":     "redis --keys 15M --key uuid --value 100 --expires 0.5",
		"hashes":      "redis --keys 2M --type hash --members 20 --member 8 --value 100",
		"one":         "redis --keys 1 --type zset --members 10M --member 20",
		"numbers":     "rax --keys 1M --key {seq:6}",
		"items":       "memcached --keys 10M --key 20 --value 100",
		"connections": "mariadb --connections 4096",
		"table":       "container unordered_map --count 10M --element string:36 --value 8",
	} {
		out, errs, code := call(t, append(strings.Fields(args), "--allocator", "glibc,jemalloc,jemalloc-redis,tcmalloc,mimalloc")...)
		if code != 0 {
			t.Fatalf("%s: %s", args, errs)
		}
		testkit.Check(t, filepath.Join("testdata", name+".golden"), []byte(out))
	}
}

func TestWhatAMachineHoldsFits(t *testing.T) {
	args := []string{"redis", "--keys", "1M", "--value", "200", "--memory", "8GiB", "--allocator", "jemalloc"}
	held := document(t, args...).Allocators[0].Holds
	args[2] = strconv.FormatUint(held, 10)
	full := document(t, args...).Allocators[0].Resident
	if full > 8<<30 || full < 0.999*(8<<30) {
		t.Errorf("%d keys are %.0f bytes", held, full)
	}
}

func TestPlots(t *testing.T) {
	for name, begins := range map[string]string{"a.svg": "<?xml", "a.png": "\x89PNG"} {
		path := filepath.Join(t.TempDir(), name)
		if _, errs, code := call(t, "redis", "--keys", "3M", "--plot", path, "--allocator", "glibc,jemalloc"); code != 0 {
			t.Fatal(errs)
		}
		if data, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(data, []byte(begins)) {
			t.Errorf("%s: %v, begins with %q", name, err, data[:min(8, len(data))])
		}
	}
}

func TestWrongLinesAreOneMessage(t *testing.T) {
	for args, want := range map[string]string{
		"redis":                                       "give the number of keys",
		"redis --keys 0":                              "leaves nothing to compute",
		"rax --keys 0":                                "leaves nothing to compute",
		"container set --count 0":                     "leaves nothing to compute",
		"redis --keys x":                              `--keys "x" is not a number`,
		"redis --keys 1 --type tree":                  `--type "tree" is not a type of values`,
		"redis --keys 1 --key {hex}":                  "there is no part {hex} without a number",
		"redis --keys 1 --key {":                      "a { is not closed",
		"redis --keys 1 --value 1e12":                 "is neither a length nor a form",
		"redis --keys 2M --key k{seq:6}":              "only 1000000 keys have the form",
		"redis --keys 1 --expires 2":                  "--expires 2 is not a share",
		"redis --keys 1 --type set --members 0":       "--members 0 makes empty values",
		"redis --keys 1 --server redis-2.0":           "there is no model of the server",
		"redis --keys 1 --allocator hoard":            "there is no model of the allocator",
		"redis --keys 1 --memory much":                `--memory "much" is not a size`,
		"redis --keys 1 --plot x.gif":                 "neither an .svg nor a .png",
		"memcached":                                   "give the number of keys",
		"memcached --keys 1 --key 300":                "keys of up to 250 bytes",
		"memcached --keys 1 --value 600k":             "spread over several chunks",
		"memcached --keys 1 --factor 1":               "a --factor above 1",
		"mariadb":                                     "give the number of connections",
		"mariadb --connections 1 --thread-stack 7":    "--thread-stack 7 is not between",
		"container":                                   "give the kind of container",
		"container tree":                              `"tree" is no kind of container`,
		"container map":                               "give the number of elements",
		"container map --count 1 --value string":      `"string" is no type`,
		"rax --keys 2M --key {seq:6}":                 "has 1000000 keys, fewer than",
		"rax --keys 1 --key {seq:6} --slots 3":        "--slots takes 1 to 16384",
		"rax --keys 1 --key {seq:6}x":                 "nothing may follow {seq}",
		"rax --keys 1 --key uuid --lib /nowhere/x.so": "which is not a file",
	} {
		if !strings.Contains(args, "--allocator") && !strings.Contains(args, "--lib") {
			args += " --allocator glibc"
		}
		if strings.Contains(args, "--lib") {
			args += " --allocator granary"
		}
		_, errs, code := call(t, strings.Fields(args)...)
		if code == 0 || !strings.Contains(errs, want) || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
			t.Errorf("%s: code %d, said %q", args, code, errs)
		}
	}
}

// The expected texts are written by hand, from the units of the figures.
func TestFactsAreSaidInTheirUnits(t *testing.T) {
	for want, f := range map[string]Fact{
		"28.5 MiB": {"address space of stacks", 100 * 299_008, "bytes"},
		"179 B":    {"an item", 179, "bytes"},
		"5,461":    {"chunks on a page", 5461, "count"},
		"2.4":      {"nodes a key", 2.36, "mean"},
	} {
		if got := f.text(); got != want {
			t.Errorf("%s is %q, expected %q", f.Name, got, want)
		}
	}
	for want, n := range map[string]float64{"232.4 B": 232.44, "4,120.4 B": 4120.4, "104 KiB": 106_928} {
		if got := each(n); got != want {
			t.Errorf("%g bytes are %q, expected %q", n, got, want)
		}
	}
}
