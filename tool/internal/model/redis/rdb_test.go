package redis

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/model/cost"
)

func read(t testing.TB, data []byte) (*Population, Info, error) {
	t.Helper()
	p := NewPopulation(Servers[0], cost.Jemalloc)
	info, err := ReadDump(bytes.NewReader(data), "dump.rdb", p.Server, func(k DumpKey) error {
		p.Key(k.Name, k.Expires)
		if k.Value != nil {
			p.Add(k.Value, 1)
		}
		return nil
	})
	return p, info, err
}

func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	paths, _ := filepath.Glob("testdata/*.rdb") // well formed
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".rdb")] = data
	}
	return out
}

// testdata has the same keys, written by three servers. Redis 8 and Valkey 9 also have fields that
// expire, so one field more is in a second hash.
func TestDumpsOfThreeServers(t *testing.T) {
	for name, data := range fixtures(t) {
		p, info, err := read(t, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]Group{}
		for _, g := range p.Groups() {
			got[g.Type+" "+g.Encoding] = g
		}
		want := map[string][2]float64{
			"string int": {3, 3}, "string embstr": {2, 2}, "string raw": {1, 1}, "list quicklist": {3, 3 + 601 + 60}, "set intset": {1, 3},
			"set hashtable": {2, 203}, "zset listpack": {1, 2}, "zset skiplist": {1, 200}, "hash listpack": {2, 4}, "hash hashtable": {2, 3}, "stream stream": {1, 250},
		}
		for group, w := range want {
			if g := got[group]; g.Keys != w[0] || g.Elements != w[1] {
				t.Errorf("%s: %s has %v keys and %v elements, want %v", name, group, g.Keys, g.Elements, w)
			}
		}
		if len(got) != len(want) || p.Keyspace.Expires != 1 || info.Keys != p.Keyspace.Keys || !strings.HasPrefix(name, map[bool]string{true: "valkey", false: "redis"}[info.Valkey]) ||
			!strings.HasPrefix(info.Server, strings.TrimLeft(name, "redisvalky-")) || info.Used == 0 {
			t.Errorf("%s: %+v, %d expire, groups %v", name, info, p.Keyspace.Expires, got)
		}
	}
}

// step is the distance between the tested offsets; it is odd, and so no multiple of the size of a value.
const step = 7

// passed reads and keeps nothing.
func passed(data []byte) error {
	_, err := ReadDump(bytes.NewReader(data), "dump.rdb", Servers[0], func(DumpKey) error { return nil })
	return err
}

func TestEveryCutIsOneSentence(t *testing.T) {
	for name, data := range fixtures(t) {
		for length := 0; length < len(data); length += step {
			err := passed(data[:length])
			if err == nil || length > 9 && !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s cut to %d bytes: %v", name, length, err)
			}
		}
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	for name, data := range fixtures(t) {
		for at := 0; at < len(data)-8; at += step { // the checksum at the end may become 0, which means none
			bad := bytes.Clone(data)
			bad[at] ^= 0x55
			if passed(bad) == nil {
				t.Fatalf("%s: byte %d is changed, and nothing is said", name, at)
			}
		}
	}
}

func TestMessages(t *testing.T) {
	for data, want := range map[string]string{
		"":                   "is no dump of Redis or Valkey",
		"RED":                "is cut",
		"<html>":             "is no dump of Redis or Valkey",
		"REDISabcd":          `is damaged at byte 9 ("abcd" is no version)`,
		"REDIS0099":          "is in version 99 of the format, and this command reads up to 12",
		"VALKEY999":          "is in version 999 of the format, and this command reads up to 80",
		"REDIS0012\x63\x01a": "99 is no type of a value",
		"REDIS0012\x06\x01a": "a module's value in the form of a test release",
		"REDIS0012\x00\x01a": "is cut",
		"REDIS0012\x00\xbf":  "begins no length",
		"REDIS0012\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff":              "a string of 18446744073709551615 bytes",
		"REDIS0012\x0b\x01a\x03abc":                                      "a packed value is broken",
		"REDIS0012\x00\x01a\xc3\x01\x81\x00\x00\x00\xff\x00\x00\x00\x00": "cannot be",
	} {
		_, _, err := read(t, []byte(data))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// The forms of Redis 2 to 6, each with the same two fields: f is 12, and word is a text.
func TestOldForms(t *testing.T) {
	zip := func(entries string, count byte) string {
		size := byte(10 + len(entries) + 1)
		return string([]byte{size, 0, 0, 0, 0, 0, 0, 0, count, 0}) + entries + "\xff"
	}
	text := func(s string) string { return string(rune(len(s))) + s }
	pairs := zip("\x00\x01f\x03\xfd\x02\x04word\x06\xfe\x80\x03\xc0\x34\x12", 4) // f, 12; word, -128; then 0x1234 alone
	dump := "REDIS0006" +
		"\x09\x01a" + text("\x02\x01f\x02\x0012\x04word\x04\x01text \xff") + // zipmap
		"\x0a\x01b" + text(pairs) +
		"\x0d\x01c" + text(zip("\x00\x01f\x03\xfd\x02\x04word\x06\xfe\x80", 4)) +
		"\x0c\x01d" + text(zip("\x00\x01f\x03\xfd", 2)) +
		"\x0e\x01e\x01" + text(pairs) +
		"\x03\x01f\x02\x01x\x031.5\x01y\xfe" +
		"\x01\x01g\x02\x01x\xc0\x05" +
		"\xfd\x01\x02\x03\x04\x04\x01h\x01\x01x\xc1\x05\x00" +
		"\xff" + strings.Repeat("\x00", 8)
	p, info, err := read(t, []byte(dump))
	if err != nil || info.Keys != 8 || p.Keyspace.Expires != 1 {
		t.Fatalf("%v, %+v", err, info)
	}
	elements := map[string]float64{}
	for _, g := range p.Groups() {
		elements[g.Type] += g.Elements
	}
	if elements["hash"] != 2+2+1 || elements["list"] != 5+5+2 || elements["zset"] != 1+2 {
		t.Errorf("elements %v", elements)
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range fixtures(f) {
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, info, err := read(t, data)
		if err == nil && (info.Keys != p.Keyspace.Keys || p.Parts() == nil) {
			t.Errorf("%d keys in %d bytes", info.Keys, len(data))
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "dump.rdb ") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("no message: %v", err)
		}
	})
}
