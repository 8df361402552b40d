//go:build !amd64 && !arm64

package inject

import "errors"

func rests(number, second uint64) bool { return true }

func borrow(pid, id int) (Thread, error) {
	return nil, errors.New("a library can be loaded into a running process on x86-64 and arm64 only")
}
