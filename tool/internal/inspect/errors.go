package inspect

import (
	"errors"
	"fmt"
)

// The causes that prevent a target from being read. Errors of this package match one of them with
// errors.Is, and their message names the mistake and the remedy.
var (
	ErrNotGranary = errors.New("the process does not run Granary")
	ErrNoRights   = errors.New("the process may not be read")
	ErrGone       = errors.New("the process does not exist")
	ErrVersion    = errors.New("the library is of a version that this command cannot read")
	ErrNotReady   = errors.New("the process has not allocated yet")
	ErrDamaged    = errors.New("the library's description of itself is damaged")
	ErrNoAnswer   = errors.New("the process has not acted on the request yet")
	ErrReadOnly   = errors.New("the target cannot be changed")
)

// An Error is a message for the user about one of the causes above.
type Error struct {
	Cause   error
	Message string
	// Allocator is what a process that does not run Granary runs instead, as far as its mappings
	// tell ("jemalloc", "the C library's malloc"); set where Cause is ErrNotGranary.
	Allocator string
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Cause }

func failure(cause error, format string, args ...any) error {
	return &Error{Cause: cause, Message: fmt.Sprintf(format, args...)}
}
