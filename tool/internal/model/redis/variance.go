package redis

import "math"

// A moment holds the mean and the mean square of two numbers of a subtree: its nodes where the parent
// has several children (with), and where it has one (without), so that a chain began above.
type moment struct{ with, withSquare, without, withoutSquare float64 }

// Variance is that of the number of nodes of keys that are random and independent. The keys of a level
// are taken as Poisson numbers, which makes subtrees independent; the term that this adds is then taken
// off.
func Variance(a Alphabets, keys float64) float64 {
	step := math.Max(1e-4*keys, 1e-3)
	slope := (a.poisson(keys+step).with - a.poisson(keys-step).with) / (2 * step)
	m := a.poisson(keys)
	return math.Max(0, m.withSquare-m.with*m.with-keys*slope*slope)
}

// poisson computes the moments of the whole tree from its leaves upward.
func (a Alphabets) poisson(keys float64) moment {
	share := a.shares()
	rate := keys * share[len(a)]
	there := -math.Expm1(-rate)
	m := moment{there, there, there, there}
	for depth := len(a) - 1; depth >= 0; depth-- {
		m = above(m, float64(a[depth]), keys*share[depth])
	}
	return m
}

// above gives the moments of a node with rate keys, from those m of each of its letters children.
func above(m moment, letters, rate float64) moment {
	others := math.Exp(-rate * (1 - 1/letters)) // no key with any letter but one
	crowded := -math.Expm1(-rate * (1 - 1/letters))
	there := -math.Expm1(-rate / letters)
	var out moment
	single, singleSquare := letters*others*m.without, letters*others*m.withoutSquare
	unary := letters * others * there
	// The part of the sum over the children that belongs to nodes with several.
	many := 0.0
	for k := 2; k <= int(letters); k++ {
		many += binomial(int(letters), k, there)
	}
	sumMany := letters * m.with * crowded
	squareMany := letters*m.withSquare*crowded + letters*(letters-1)*m.with*m.with
	out.without = single + many + sumMany
	out.withoutSquare = singleSquare + many + 2*sumMany + squareMany
	out.with = out.without + unary
	out.withSquare = out.withoutSquare + 2*single + unary
	return out
}
