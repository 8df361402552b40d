package trace

// rowObjects is how many consecutive objects a row of places is for.
const rowObjects = 64

// places gives each live object an index that no other live one has, and no more indexes than there are live objects at the
// peak. The zero value is ready.
type places struct {
	count uint32
	empty []uint32
}

func (p *places) take() uint32 {
	if n := len(p.empty); n > 0 {
		place := p.empty[n-1]
		p.empty = p.empty[:n-1]
		return place
	}
	p.count++
	return p.count - 1
}

func (p *places) give(place uint32) { p.empty = append(p.empty, place) }

// liveObjects finds live objects by their numbers, which rise from allocation to allocation: where they are live is one row
// for each 64 numbers, as long as one of those is live. No map of Go is as fast for objects that come and go.
type liveObjects struct {
	places  places
	objects []Object // by place
	rows    []uint32 // by number; the row of 64 objects, plus one
	at      []row
	empty   []uint32 // rows without a live object
	bare    bool     // only the places are kept
}

type row struct {
	live   uint32
	places [rowObjects]uint32 // plus one; 0: not live
}

// add keeps the object that begins with an event, at its place. Its number is above those of all others.
func (l *liveObjects) add(e *Event) {
	n := e.Object / rowObjects
	for uint64(len(l.rows)) <= n {
		l.rows = append(l.rows, 0)
	}
	if l.rows[n] == 0 {
		l.rows[n] = l.newRow() + 1
	}
	r := &l.at[l.rows[n]-1]
	r.live++
	r.places[e.Object%rowObjects] = e.Place + 1
	if l.bare {
		return
	}
	if int(e.Place) == len(l.objects) {
		l.objects = append(l.objects, Object{})
	}
	l.objects[e.Place] = Object{Number: e.Object, Size: e.Size, Born: e.Time, Thread: e.Thread, Stack: e.Stack, Place: e.Place}
}

func (l *liveObjects) newRow() uint32 {
	if n := len(l.empty); n > 0 {
		number := l.empty[n-1]
		l.empty = l.empty[:n-1]
		return number
	}
	l.at = append(l.at, row{})
	return uint32(len(l.at) - 1)
}

// take removes a live object, whose place stays taken. False: it is not live.
func (l *liveObjects) take(number uint64, to *Object) bool {
	n := number / rowObjects
	if n >= uint64(len(l.rows)) || l.rows[n] == 0 {
		return false
	}
	r := &l.at[l.rows[n]-1]
	place := &r.places[number%rowObjects]
	if *place == 0 {
		return false
	}
	if l.bare {
		to.Number, to.Place = number, *place-1
	} else {
		*to = l.objects[*place-1]
	}
	*place = 0
	if r.live--; r.live == 0 {
		l.empty = append(l.empty, l.rows[n]-1)
		l.rows[n] = 0
	}
	return true
}
