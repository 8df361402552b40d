package cli

import (
	"math"
	"strconv"
	"strings"
)

// units that a size may be given in.
var units = []struct {
	suffix string
	bytes  float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"B", 1}}

// largestSize is more than any process can map.
const largestSize = 1 << 47

// ParseSize reads a size: "100", "64KiB", "1.5M".
func ParseSize(text string) (uint64, error) {
	number, factor := text, 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil || n < 0 || n != math.Trunc(n) || n > largestSize {
		return 0, Usagef("%q is not a size: give whole bytes up to 128 TiB, as in 100, 64KiB or 1.5MiB", text)
	}
	return uint64(n), nil
}
