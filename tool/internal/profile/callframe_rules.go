package profile

import "encoding/binary"

// A frameReader reads numbers from bytes; short says that there were too few bytes.
type frameReader struct {
	b     []byte
	short bool
}

func (r *frameReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.short, n = true, uint64(len(r.b))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *frameReader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *frameReader) text() string {
	for i, b := range r.b {
		if b == 0 {
			return string(r.take(uint64(i + 1))[:i])
		}
	}
	r.short = true
	return ""
}

func (r *frameReader) unsigned() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	return v
}

func (r *frameReader) signed() (v int64) {
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			break
		}
	}
	return v
}

// A frameMachine runs the instructions up to an address.
type frameMachine struct {
	common    *frameCommon
	at, until uint64
	rule      FrameRule
	initial   FrameRule
	kept      []FrameRule
}

// The instructions (DWARF 5, 6.4.2) that compilers write for ordinary functions. The first three carry
// an operand in their lower six bits.
const (
	opAdvance        = 0x40
	opOffset         = 0x80
	opRestore        = 0xc0
	opNop            = 0x00
	opAdvance1       = 0x02
	opAdvance2       = 0x03
	opAdvance4       = 0x04
	opRestoreLong    = 0x06
	opUndefined      = 0x07
	opSameValue      = 0x08
	opRemember       = 0x0a
	opRecall         = 0x0b
	opDefine         = 0x0c
	opDefineRegister = 0x0d
	opDefineOffset   = 0x0e
	opNegateState    = 0x2d // arm64: the return address is signed, or is not
	opArgsSize       = 0x2e
)

// run is false where an instruction is not known.
func (m *frameMachine) run(program []byte) bool {
	r := &frameReader{b: program}
	for len(r.b) > 0 && m.at <= m.until {
		if !m.step(r) || r.short {
			return false
		}
	}
	return true
}

func (m *frameMachine) step(r *frameReader) bool {
	op := r.byte()
	operand := uint64(op & 0x3f)
	switch op & 0xc0 {
	case opAdvance:
		return m.advance(operand)
	case opOffset:
		m.rule.Saved[operand] = int64(r.unsigned()) * m.common.dataAlign
		return true
	case opRestore:
		m.restore(operand)
		return true
	}
	switch op {
	case opNop, opNegateState:
	case opAdvance1:
		return m.advance(uint64(r.byte()))
	case opAdvance2:
		if b := r.take(2); len(b) == 2 {
			return m.advance(uint64(binary.LittleEndian.Uint16(b)))
		}
	case opAdvance4:
		if b := r.take(4); len(b) == 4 {
			return m.advance(uint64(binary.LittleEndian.Uint32(b)))
		}
	case opRestoreLong:
		m.restore(r.unsigned())
	case opUndefined, opSameValue:
		delete(m.rule.Saved, r.unsigned())
	case opRemember:
		m.kept = append(m.kept, cloneRule(m.rule))
	case opRecall:
		if len(m.kept) == 0 {
			return false
		}
		m.rule, m.kept = m.kept[len(m.kept)-1], m.kept[:len(m.kept)-1]
	case opDefine:
		m.rule.Register, m.rule.Offset = r.unsigned(), int64(r.unsigned())
	case opDefineRegister:
		m.rule.Register = r.unsigned()
	case opDefineOffset:
		m.rule.Offset = int64(r.unsigned())
	case opArgsSize:
		r.unsigned()
	default:
		return false
	}
	return true
}

func (m *frameMachine) advance(by uint64) bool {
	m.at += by * m.common.codeAlign
	return true
}

func (m *frameMachine) restore(register uint64) {
	if offset, ok := m.initial.Saved[register]; ok {
		m.rule.Saved[register] = offset
	} else {
		delete(m.rule.Saved, register)
	}
}
