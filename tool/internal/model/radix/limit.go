package radix

import "math"

// NodesPerKey is what the number of nodes a key tends to, averaged over its period, for many keys that
// are random over an alphabet. Around it the number swings with the logarithm of the count.
func NodesPerKey(letters int) (branches, chains float64) {
	a := float64(letters)
	log := math.Log(a)
	branches = (a - 1) * math.Log(a/(a-1)) / log
	chains = (a*a*log-(a*a-1)*math.Log(a-1/a))/log - branches
	return branches, chains
}
