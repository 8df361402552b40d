package cli

// Nearest returns the known name that differs least from name, if it is a likely slip, else an empty string.
func Nearest(known []string, name string) string {
	best, least := "", min(4, len(name)/2+1)
	for _, one := range known {
		if d := distance(one, name); d < least {
			best, least = one, d
		}
	}
	return best
}

// distance is how many letters must be put in, taken out or replaced (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
