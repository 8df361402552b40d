package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The newest versions of the format that are read.
const (
	newestRedis  = 12
	newestValkey = 80
)

// A DumpKey is a key of the dump. Value is used again for the next key.
type DumpKey struct {
	Name    uint64 // its length
	Expires bool
	Value   *Value // nil for a value of a module
}

// Info holds the figures that a dump states about itself and its server.
type Info struct {
	Version int
	Valkey  bool
	Server  string // version of the server that wrote it
	Used    uint64 // memory that the server had in use then
	Keys    uint64
}

// Opcodes between keys.
const (
	opSlotImport = 243
	opSlotInfo   = 244
	opFunction   = 245
	opModuleAux  = 247
	opIdle       = 248
	opFreq       = 249
	opAux        = 250
	opResize     = 251
	opExpireMS   = 252
	opExpire     = 253
	opSelect     = 254
	opEnd        = 255
)

type reader struct {
	in     *bufio.Reader
	offset uint64
	sum    uint64
	info   Info
	value  Value
	server Server
}

// A cut dump ends before its end mark.
type cut struct {
	name   string
	offset uint64
}

func (c cut) Error() string {
	return fmt.Sprintf("%s ends after %d bytes, before its end mark: it is cut; copy it again when the save is over", c.name, c.offset)
}

func (c cut) Unwrap() error { return io.ErrUnexpectedEOF }

// A damage is a place where the dump does not follow its format.
type damage struct{ reason string }

func (d damage) Error() string { return d.reason }

func damaged(format string, args ...any) error { return damage{fmt.Sprintf(format, args...)} }

// Read calls each for every key. The server's settings determine the layout of lists that the dump stores
// element by element. Errors name the dump.
func ReadDump(in io.Reader, name string, server Server, each func(DumpKey) error) (Info, error) {
	r := &reader{in: bufio.NewReaderSize(in, 1<<16), server: server}
	r.value.Settled = true
	err := r.all(name, each)
	var bad damage
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		err = cut{name, r.offset}
	case errors.As(err, &bad):
		err = fmt.Errorf("%s is damaged at byte %d (%w); `redis-check-rdb` shows what can be saved", name, r.offset, bad)
	}
	return r.info, err
}

func (r *reader) all(name string, each func(DumpKey) error) error {
	if err := r.begin(name); err != nil {
		return err
	}
	expires := false
	for {
		op, err := r.byte()
		if err != nil {
			return err
		}
		if op == opEnd {
			return r.end()
		}
		if op == opExpire || op == opExpireMS {
			expires = true
		}
		if known, err := r.between(op); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := r.key(op, expires, each); err != nil {
			return err
		}
		expires = false
	}
}

func (r *reader) begin(name string) error {
	const magic = 9
	head := make([]byte, magic)
	n, err := io.ReadFull(r.in, head)
	begins := func(word string) bool { return n > 0 && strings.HasPrefix(word, string(head[:min(n, len(word))])) }
	if !begins("REDIS") && !begins("VALKEY") {
		return fmt.Errorf("%s is no dump of Redis or Valkey: it does not begin with REDIS or VALKEY", name)
	}
	if err != nil {
		return err
	}
	r.offset += magic
	r.sum = checksum(r.sum, head)
	r.info.Valkey = head[0] == 'V'
	digits, newest := string(head[5:]), newestRedis
	if r.info.Valkey {
		digits, newest = string(head[6:]), newestValkey
	}
	version, err := strconv.Atoi(digits)
	if err != nil || version < 1 {
		return damaged("%q is no version", digits)
	}
	r.info.Version = version
	if version > newest {
		return fmt.Errorf("%s is in version %d of the format, and this command reads up to %d: use a newer granary, or dump with an older server", name, version, newest)
	}
	return nil
}

// end compares the checksum, which versions from 5 have; zero means that the server wrote none.
func (r *reader) end() error {
	if r.info.Version < 5 {
		return nil
	}
	sum := r.sum
	want, err := r.uint(8)
	if err == nil && want != 0 && want != sum {
		return damaged("its checksum is %016x, that of its bytes %016x", want, sum)
	}
	return err
}

// between reads the opcodes between keys. It is false for the type of a value.
func (r *reader) between(op byte) (known bool, err error) {
	switch op {
	case opAux:
		return true, r.aux()
	case opResize:
		return true, r.lengths(2)
	case opSlotInfo:
		return true, r.lengths(3)
	case opSelect, opIdle:
		return true, r.lengths(1)
	case opFreq:
		return true, r.skip(1)
	case opExpire:
		return true, r.skip(4)
	case opExpireMS:
		return true, r.skip(8)
	case opFunction:
		_, err := r.text()
		return true, err
	case opModuleAux:
		return true, r.moduleAux()
	case opSlotImport:
		return true, damaged("a slot was being imported into a cluster; dump again when that is over")
	}
	return false, nil
}

func (r *reader) aux() error {
	name, err := r.blob(1 << 20)
	if err != nil {
		return err
	}
	value, err := r.blob(1 << 20)
	if err != nil {
		return err
	}
	switch string(name) {
	case "redis-ver", "valkey-ver":
		r.info.Server = string(value)
	case "used-mem":
		r.info.Used, _ = strconv.ParseUint(string(value), 10, 64) // it only informs
	}
	return nil
}

func (r *reader) key(kind byte, expires bool, each func(DumpKey) error) error {
	name, err := r.text()
	if err != nil {
		return err
	}
	k := DumpKey{Name: name.Len, Expires: expires}
	if known, err := r.read(kind); err != nil {
		return err
	} else if known {
		k.Value = &r.value
		r.value.Key(name.Len, map[bool]float64{true: 1}[expires])
	}
	r.info.Keys++
	return each(k)
}
