package term

import "fmt"

// Counted is a number with its word: 1 round, 2 rounds.
func Counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
