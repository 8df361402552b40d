package top

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/granary-allocator/granary/tool/internal/term"
)

// Save writes the samples as JSON into a new file.
func (l Live) Save(pid int, samples []Sample) (string, error) {
	path := filepath.Join(l.Dir, fmt.Sprintf("granary-top-%d-%s.json", pid, l.Now().Format("20060102-150405")))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("save the samples: %w", err)
	}
	if err := term.JSON(file, samples); err != nil {
		_ = file.Close() // the first error is the one to tell
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("save the samples: %w", err)
	}
	return path, nil
}
