package cli

import "testing"

func TestSizesAreParsed(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "100": 100, "64KiB": 65536, "1.5MiB": 1572864, "2G": 2 << 30, "12B": 12, "1 KiB": 1024} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5", "1e30", "NaN", "KiB", "1TB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
