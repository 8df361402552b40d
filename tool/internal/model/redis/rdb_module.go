package redis

// Opcodes inside a module's value.
const (
	moduleEnd = iota
	moduleInt
	moduleUint
	moduleFloat
	moduleDouble
	moduleString
)

// module skips a module's value. Each of its parts begins with an opcode.
func (r *reader) module() error {
	if _, err := r.number(); err != nil {
		return err
	}
	for {
		op, err := r.number()
		if err != nil {
			return err
		}
		switch op {
		case moduleEnd:
			return nil
		case moduleInt, moduleUint:
			_, err = r.number()
		case moduleFloat:
			err = r.skip(4)
		case moduleDouble:
			err = r.skip(8)
		case moduleString:
			_, err = r.text()
		default:
			return damaged("%d is no part of a module's value", op)
		}
		if err != nil {
			return err
		}
	}
}

// moduleAux skips the data of a module outside of keys: its id, the moment when it is loaded, and parts.
func (r *reader) moduleAux() error {
	if err := r.lengths(2); err != nil { // the id, and the type of the next number
		return err
	}
	return r.module()
}
