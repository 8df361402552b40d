package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// description is the descriptor of the library, as bytes.
func description(t *testing.T) []byte {
	t.Helper()
	r, images := record(t)
	target, err := open(r, images)
	if err != nil {
		t.Fatal(err)
	}
	head, err := readAt(r, target.mark.descriptor, headBytes)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAt(r, target.mark.descriptor, int(binary.LittleEndian.Uint32(head[12:])))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// extend lays the descriptor out as a later version may: longer rows, and one more table. Texts keep
// their offsets, as the new tables come behind them.
func extend(all []byte) []byte {
	const more = 24
	out := append([]byte(nil), all...)
	for i := range knownTables {
		at := headBytes + i*tableBytes
		offset, rows, size := binary.LittleEndian.Uint32(all[at:]), binary.LittleEndian.Uint32(all[at+4:]), binary.LittleEndian.Uint32(all[at+8:])
		binary.LittleEndian.PutUint32(out[at:], uint32(len(out)))
		binary.LittleEndian.PutUint32(out[at+8:], size+more)
		for r := range rows {
			out = append(out, all[offset+r*size:][:size]...)
			out = append(out, make([]byte, more)...)
		}
	}
	binary.LittleEndian.PutUint32(out[12:], uint32(len(out)))
	binary.LittleEndian.PutUint32(out[20:], knownTables+1)
	return out
}

func TestRowsOfALaterLibraryAreUnderstood(t *testing.T) {
	all := description(t)
	now, err := decodeLayout(all)
	if err != nil {
		t.Fatal(err)
	}
	later, err := decodeLayout(extend(all))
	if err != nil {
		t.Fatal(err)
	}
	if len(later.cells) != len(now.cells) || len(later.classes) != len(now.classes) || later.library != now.library {
		t.Fatalf("%d cells and %d classes were read, there are %d and %d", len(later.cells), len(later.classes), len(now.cells), len(now.classes))
	}
	for i, m := range now.metrics {
		if later.metrics[i] != m {
			t.Errorf("metric %s is read as %+v", m.Name, later.metrics[i])
		}
	}
}

func TestALibraryThatTellsTooLittleIsOfAnotherVersion(t *testing.T) {
	all := bytes.Replace(description(t), []byte("\x00cache.initial\x00"), []byte("\x00cache.unknown\x00"), 1)
	if _, err := decodeLayout(all); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "cache.initial") {
		t.Errorf("%v", err)
	}
}

func TestALaterLayoutIsReportedApart(t *testing.T) {
	r, images := record(t)
	target, err := open(r, images)
	if err != nil {
		t.Fatal(err)
	}
	page := r.pages[target.mark.descriptor&^(recordedPage-1)]
	binary.LittleEndian.PutUint32(page[target.mark.descriptor%recordedPage+8:], descriptorVersion+1)
	if _, err := open(r, images); !errors.Is(err, ErrVersion) {
		t.Errorf("layout %d: %v", descriptorVersion+1, err)
	}
}

// Every figure of the table must have a cell or a rule: this reader and this library are of one
// version.
func TestEveryFigureOfThisVersionIsKnown(t *testing.T) {
	r, images := record(t)
	target, err := open(r, images)
	if err != nil {
		t.Fatal(err)
	}
	s, err := target.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Metrics) != len(target.layout.metrics) {
		t.Errorf("%d of %d figures are known", len(s.Metrics), len(target.layout.metrics))
	}
}
