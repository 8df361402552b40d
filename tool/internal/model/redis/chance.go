package redis

import "math"

// chance computes the probability that a part of the key space has no key.
type chance struct {
	keys  float64
	space float64 // how many keys are possible
	drawn bool    // without putting back: the keys differ, and are many of those that are possible
}

// Keys that are this rare among the possible ones are as good as independent.
const rare = 1e-6

func newChance(keys, space float64) chance {
	return chance{keys, space, keys >= rare*space}
}

// log is the logarithm of the probability that the share q of the space has no key.
func (c chance) log(q float64) float64 {
	if !c.drawn {
		if q >= 1 {
			return math.Inf(-1)
		}
		return c.keys * math.Log1p(-q)
	}
	return logNone(c.space, q*c.space, c.keys)
}

// none is that chance.
func (c chance) none(q float64) float64 { return math.Exp(c.log(q)) }

// only is the probability that the share q has a key, and all its keys are in its part of size of:
// q less of has no key, but q has.
func (c chance) only(q, of float64) float64 {
	rest := (1 - q) + of // the share that may have keys
	switch {
	case of >= q:
		return -math.Expm1(c.log(q))
	case c.drawn:
		return math.Max(0, math.Exp(logNone(c.space, (q-of)*c.space, c.keys))-c.none(q))
	case q >= 1:
		return math.Exp(c.keys * math.Log(of))
	case of > 1e-3*(1-q):
		return math.Exp(c.keys*math.Log(rest)) - c.none(q)
	}
	return c.none(q) * math.Expm1(c.keys*math.Log1p(of/(1-q)))
}

// logNone is ln(C(space-part, keys) / C(space, keys)): none of the keys, drawn without putting back,
// lies in part.
func logNone(space, part, keys float64) float64 {
	left := space - part - keys
	if left < -0.5 {
		return math.Inf(-1)
	}
	if left < 1000 {
		return lgamma(space-part+1) + lgamma(space-keys+1) - lgamma(left+1) - lgamma(space+1)
	}
	// Stirling, ordered so that the large terms cancel before they are rounded.
	a, b, both := math.Log1p(-part/space), math.Log1p(-keys/space), math.Log1p(-(part+keys)/space)
	return (space-part+0.5)*a + (space-keys+0.5)*b - (left+0.5)*both
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
