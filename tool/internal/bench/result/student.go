package result

import "math"

// StudentQuantile is the value that Student's t with df degrees of freedom stays below with
// probability p, for p between 0.5 and 1.
func StudentQuantile(p, df float64) float64 {
	low, high := 0.0, 1.0
	for StudentCDF(high, df) < p && high < 1e9 {
		high *= 2
	}
	for range 200 {
		mid := (low + high) / 2
		if StudentCDF(mid, df) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// StudentCDF is the probability that Student's t with df degrees of freedom is at most t.
func StudentCDF(t, df float64) float64 {
	tail := incompleteBeta(df/(df+t*t), df/2, 0.5) / 2
	if t < 0 {
		return tail
	}
	return 1 - tail
}

// incompleteBeta is the regularised incomplete beta function, by its continued fraction on the side
// where that converges fast.
func incompleteBeta(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(x, a, b) / a
	}
	return 1 - front*betaFraction(1-x, b, a)/b
}

// betaFraction evaluates the continued fraction by Lentz's method.
func betaFraction(x, a, b float64) float64 {
	const tiny, precise = 1e-300, 1e-15
	away := func(v float64) float64 { // keeps divisors off zero
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	result := d
	for m := 1.0; m < 500; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d, c = 1/away(1+even*d), away(1+even/c)
		result *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d, c = 1/away(1+odd*d), away(1+odd/c)
		result *= d * c
		if math.Abs(d*c-1) < precise {
			break
		}
	}
	return result
}
