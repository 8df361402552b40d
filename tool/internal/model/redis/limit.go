package redis

import "math"

// NodesPerKey is the limit of the number of nodes for each key, for many keys that are random over an
// alphabet. The actual number oscillates around this mean with the logarithm of the number of keys.
func NodesPerKey(letters int) (branches, chains float64) {
	a := float64(letters)
	log := math.Log(a)
	branches = (a - 1) * math.Log(a/(a-1)) / log
	chains = (a*a*log-(a*a-1)*math.Log(a-1/a))/log - branches
	return branches, chains
}
