package procfs

import (
	"fmt"
	"os"
	"path/filepath"
)

// Swap is the machine's swap space, in bytes.
type Swap struct{ Total, Free uint64 }

// Swap reads /proc/meminfo.
func (fs FS) Swap() (Swap, error) {
	text, err := os.ReadFile(filepath.Join(fs.Root, "meminfo"))
	if err != nil {
		return Swap{}, fmt.Errorf("read the machine's swap space: %w", err)
	}
	all := sizes(string(text))
	return Swap{Total: all["SwapTotal"], Free: all["SwapFree"]}, nil
}
