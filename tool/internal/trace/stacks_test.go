package trace

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// other writes what is no event.
func (c *chunkWriter) other(what uint8, numbers ...uint64) *chunkWriter {
	c.data = append(c.data, recordOther|what<<kindBits)
	for _, n := range numbers {
		c.data = binary.AppendUvarint(c.data, n)
	}
	return c
}

// zigzag is a distance with its sign in the lowest bit.
func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

// stacked is a recording of two stacks: one in a file that is not there, one in no file.
func stacked() []byte {
	c := chunk(0, 1000).
		other(otherDefinesStack, 9, 2, zigzag(0x400011), zigzag(0x100)).other(otherStack, 9).event(1, 1, 0x1000, 100).
		other(otherDefinesStack, 4, 1, zigzag(0x11)).other(otherStack, 4).event(1, 1, 0x2000, 10).
		other(otherStack, 9).event(1, 1, 0x3000, 200).event(4, 1, 0x1000).
		event(5, 1, 0x2000).other(otherStack, 9).event(6, 0, 0x4000, 20).
		event(1, 1, 0x5000, 1)
	maps := chunk(mapsThread, 0)
	maps.data = append(maps.data, "400000-401000 r-xp 00002000 00:00 1  /no such/file\nnonsense\n"...)
	data := file(c, maps)
	data[8] = 2
	return data
}

func TestStacks(t *testing.T) {
	recorded := parse(t, stacked())
	var packed bytes.Buffer
	if _, err := Pack(&packed, recorded); err != nil {
		t.Fatal(err)
	}
	for name, tr := range map[string]*Trace{"recorded": recorded, "packed": parse(t, packed.Bytes())} {
		s := Summarize(tr)
		got := map[string]Group{}
		for _, g := range s.ByStack {
			got[tr.Header.StackOf(g.Stack, 9)] = g
		}
		inFile, inNone, unknown := got["file+0x2010 < file+0x2110"], got["0x10"], got["unknown"]
		if len(got) != 3 || inFile.Objects != 3 || inFile.Bytes != 320 || inFile.EndBytes != 220 || inFile.AtPeak.Bytes != 300 ||
			inNone.Objects != 1 || inNone.AtEnd != 0 || unknown.EndBytes != 1 {
			t.Errorf("%s: %+v, damage %v", name, got, s.Findings.Damage)
		}
	}
	if short := recorded.Header.StackOf(2, 1); short != "file+0x2010 < ..." {
		t.Error(short)
	}
}

func TestAnonymousStacks(t *testing.T) {
	tr := parse(t, stacked())
	tr.Header.dropNames()
	var packed bytes.Buffer
	if _, err := Pack(&packed, tr); err != nil {
		t.Fatal(err)
	}
	if text := packed.String(); strings.Contains(text, "file") || !strings.Contains(text, "function 1") {
		t.Errorf("%q", text)
	}
}

func TestDamagedStacks(t *testing.T) {
	for name, c := range map[string]*chunkWriter{
		"long":     chunk(0, 1000).event(1, 1, 0x1000, 100).other(otherDefinesStack, 1, 1000),
		"number":   chunk(0, 1000).event(1, 1, 0x1000, 100).other(otherStack, 0),
		"no sense": chunk(0, 1000).event(1, 1, 0x1000, 100).other(9, 1),
	} {
		s := Summarize(parse(t, file(c)))
		if len(s.Findings.Damage) != 1 || s.Objects != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	h := Header{Functions: []string{"f"}, Stacks: [][]int{{0, 1}}}
	if err := h.checkStacks(); err == nil {
		t.Error("a function that is not there was accepted")
	}
}
