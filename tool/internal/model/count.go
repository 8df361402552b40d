package model

import (
	"math"
	"strconv"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/dustin/go-humanize"
)

// counts are the factors of the letters after a number of keys.
var counts = map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}

// parseCount reads "15M", "1.5k" or "1,000,000".
func parseCount(flag, text string, most uint64) (uint64, error) {
	number, factor := strings.ReplaceAll(text, ",", ""), 1.0
	for letter, f := range counts {
		if rest, found := strings.CutSuffix(number, letter); found {
			number, factor = rest, f
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	n = math.Round(n * factor)
	if err != nil || math.IsNaN(n) || n < 0 || n > float64(most) {
		return 0, cli.Usagef("--%s %q is not a number up to %d: give one as in 1000, 20k or 15M", flag, text, most)
	}
	return uint64(n), nil
}

// parseSome is parseCount for a number that must be at least one.
func parseSome(flag, text string, most uint64) (uint64, error) {
	n, err := parseCount(flag, text, most)
	if err == nil && n == 0 {
		err = cli.Usagef("--%s 0 leaves nothing to compute: give 1 or more", flag)
	}
	return n, err
}

// parseNumber reads the number of things, which the command needs; the example shows it.
func parseNumber(flag, text string, most uint64, things, example string) (uint64, error) {
	if text == "" {
		return 0, cli.Usagef("give the number of %s, as in `granary %s`", things, example)
	}
	return parseSome(flag, text, most)
}

// parseBytes reads "16GiB".
func parseBytes(flag, text string) (float64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<60 {
		return 0, cli.Usagef("--%s %q is not a size: give one as in 512MiB or 16GiB", flag, text)
	}
	return float64(n), nil
}
