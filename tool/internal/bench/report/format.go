package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units map a stored unit to the printed one: bytes are stored as bytes and printed in MiB.
var units = map[string]struct {
	shown string
	scale float64
}{
	"bytes": {"MiB", 1.0 / (1 << 20)},
	"1/s":   {"k/s", 1e-3},
}

// Unit is the unit in which values of a stored unit are shown.
func Unit(stored string) string {
	if u, ok := units[stored]; ok {
		return u.shown
	}
	return stored
}

func scaled(value float64, stored string) float64 {
	if u, ok := units[stored]; ok {
		return value * u.scale
	}
	return value
}

// Number shows a stored value with three significant digits, or all digits before the point.
func Number(value float64, stored string) string {
	v := scaled(value, stored)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	magnitude := math.Abs(v)
	switch {
	case magnitude >= 100 || v == 0 || stored == "count":
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	case magnitude >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case magnitude >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// Spread is half the range in per cent of the median; empty for one round.
func (c Cell) Spread() string {
	if c.Rounds < 2 || c.Median == 0 {
		return ""
	}
	return fmt.Sprintf("±%.0f%%", math.Abs((c.Range.High-c.Range.Low)/2/c.Median*100))
}

// Mark is the verdict of a cell: * for the best of its row, otherwise its ratio to the row's reference,
// with ≈ before it if no difference is shown.
func (c Cell) Mark() string {
	switch {
	case c.Rounds == 0 || c.Cost == 0:
		return ""
	case c.Best && c.Reference:
		return "*"
	case c.Best:
		return "*" + c.times()
	}
	return c.times()
}

func (c Cell) times() string {
	if math.IsInf(c.Cost, 0) || math.IsNaN(c.Cost) { // to a best value of 0
		return ""
	}
	times := "×" + Number(c.Cost, "")
	if c.Noise {
		return "≈" + times
	}
	return times
}

// Text is the cell of a table, with separator between the value and its spread and mark.
func (c Cell) Text(unit, separator string) string {
	if c.Rounds == 0 {
		return "-"
	}
	about := strings.TrimSpace(c.Spread() + " " + c.Mark())
	if about == "" {
		return Number(c.Median, unit)
	}
	return Number(c.Median, unit) + separator + about
}
