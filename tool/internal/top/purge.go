package top

import (
	"context"
	"fmt"
	"time"

	"github.com/granary-allocator/granary/tool/internal/ctl"
)

// answerTime is how long the screen waits for a process to give memory back.
const answerTime = 3 * time.Second

// Purge asks the process to give its free memory back.
func (l Live) Purge(ctx context.Context, pid int) (string, error) {
	o, err := ctl.Do(ctx, l.Proc, pid, "purge", nil, answerTime)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d %s", pid, o.Message), nil
}
