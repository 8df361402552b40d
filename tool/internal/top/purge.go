package top

import (
	"context"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/ctl"
)

// answerTime is how long the screen waits for a process to purge.
const answerTime = 3 * time.Second

// Purge makes the process purge its free memory.
func (l Live) Purge(ctx context.Context, pid int) (string, error) {
	o, err := ctl.Do(ctx, l.Proc, pid, "purge", nil, answerTime)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d %s", pid, o.Message), nil
}
