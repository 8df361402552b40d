package redis

import (
	"fmt"
	"strconv"
	"strings"
)

// A Key is the form of keys, read from a pattern.
type Key struct {
	Text      string
	Slot      bool // two bytes of a slot of Redis Cluster come first
	Alphabets Alphabets
	Digits    int // the last so many places are a running number
}

// Len is the length of a key in bytes.
func (k Key) Len() int {
	length := len(k.Alphabets) + k.Digits
	if k.Slot {
		length += 2
	}
	return length
}

// Space is the number of possible keys of the form.
func (k Key) Space() float64 {
	space := k.Alphabets.Space()
	for range k.Digits {
		space *= 10
	}
	if k.Slot {
		space *= 1 << 14
	}
	return space
}

// alphabetSizes are the names of a pattern's random parts.
var alphabetSizes = map[string]int{"digits": 10, "hex": 16, "letters": 26, "alnum": 62, "base64": 64, "bytes": 256}

// longest is the most letters of a key.
const longest = 4096

// Forms describes the syntax that ParseKey reads.
const Forms = "uuid, or text with {seq:6} (a running number of six digits), {digits:6}, {hex:32}, {letters:8}, {alnum:10}, {base64:22}, {bytes:16} (random), {uuid}, or {slot} in front"

// ParseKey reads a pattern such as "user:{seq:6}", "uuid" or "{slot}{hex:32}".
func ParseKey(text string) (Key, error) {
	k := Key{Text: text}
	rest := text
	if text == "uuid" {
		rest = "{uuid}"
	}
	for rest != "" {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return k, wrong(text, "a } has no { before it")
		}
		if err := k.literal(literal); err != nil {
			return k, err
		}
		if !found {
			break
		}
		part, left, closed := strings.Cut(after, "}")
		if !closed {
			return k, wrong(text, "a { is not closed")
		}
		if err := k.part(part); err != nil {
			return k, err
		}
		rest = left
	}
	if k.Len() == 0 {
		return k, wrong(text, "it is empty")
	}
	if k.Len() > longest {
		return k, wrong(text, fmt.Sprintf("its keys are longer than %d bytes", longest))
	}
	return k, nil
}

func wrong(text, why string) error {
	return fmt.Errorf("%q is not a form of keys (%s): give %s", text, why, Forms)
}

func (k *Key) literal(text string) error {
	if text != "" && k.Digits > 0 {
		return wrong(k.Text, "nothing may follow {seq}")
	}
	k.Alphabets = append(k.Alphabets, Repeat(1, len(text))...)
	return nil
}

func (k *Key) part(part string) error {
	if k.Digits > 0 {
		return wrong(k.Text, "nothing may follow {seq}")
	}
	name, number, given := strings.Cut(part, ":")
	if !given {
		return k.named(name)
	}
	count, err := strconv.Atoi(number)
	if err != nil || count < 1 || count > longest {
		return wrong(k.Text, fmt.Sprintf("%q is not a number of letters", number))
	}
	if name == "seq" {
		return k.running(count)
	}
	letters, known := alphabetSizes[name]
	if !known {
		return wrong(k.Text, fmt.Sprintf("there is no part {%s}", name))
	}
	k.Alphabets = append(k.Alphabets, Repeat(letters, count)...)
	return nil
}

func (k *Key) named(name string) error {
	switch {
	case name == "uuid":
		k.Alphabets = append(k.Alphabets, uuid()...)
	case name == "slot" && k.Len() == 0:
		k.Slot = true
	case name == "slot":
		return wrong(k.Text, "{slot} comes first")
	default:
		return wrong(k.Text, fmt.Sprintf("there is no part {%s} without a number of letters", name))
	}
	return nil
}

func (k *Key) running(digits int) error {
	const most = 18 // the number of digits that 64 bits hold
	for _, letters := range k.Alphabets {
		if letters > 1 {
			return wrong(k.Text, "only fixed letters may precede {seq}")
		}
	}
	if k.Slot || digits > most {
		return wrong(k.Text, "{seq} has up to 18 digits, and no {slot}")
	}
	k.Digits = digits
	return nil
}

// uuid is version 4 as text: four dashes, the version, and a letter that is one of four.
func uuid() Alphabets {
	var a Alphabets
	for i, letters := range []int{8, 4, 4, 4, 12} {
		if i > 0 {
			a = append(a, 1)
		}
		group := Repeat(16, letters)
		switch i {
		case 2:
			group[0] = 1
		case 3:
			group[0] = 4
		}
		a = append(a, group...)
	}
	return a
}

// Tree returns the expected tree of a number of keys of the form, and the variance of its nodes. exact
// means that the tree does not depend on chance. A negative variance is unknown, because most of the
// possible keys exist.
func (k Key) Tree(keys uint64) (t Tree, variance float64, err error) {
	if float64(keys) > k.Space() {
		return t, 0, fmt.Errorf("the form %q has %.0f keys, fewer than the requested %d: give it more letters", k.Text, k.Space(), keys)
	}
	switch {
	case k.Digits > 0:
		return Numbered(len(k.Alphabets), k.Digits, keys), 0, nil
	case k.Slot:
		const all = 1 << 14
		t, _, variance = Slotted(all, k.Alphabets, keys)
		return t, variance, nil
	}
	if newChance(float64(keys), k.Space()).drawn {
		return Random(k.Alphabets, float64(keys)), -1, nil
	}
	return Random(k.Alphabets, float64(keys)), Variance(k.Alphabets, float64(keys)), nil
}
