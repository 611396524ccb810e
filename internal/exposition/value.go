package exposition

import (
	"math"
	"strconv"
)

// AppendValue appends a value as the Prometheus client library spells it: in the fewest digits, 1e+06, never -0.
func AppendValue(dst []byte, v float64) []byte {
	if v == 0 {
		return append(dst, '0')
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// exactInts is up to where every float64 without a fraction is written as an integer.
const exactInts = 1 << 53

// AppendPlainValue appends a value in the fewest digits too, but with an exponent only beyond 1e17 and below 1e-5, as most
// servers spell their numbers. It keeps -0.
func AppendPlainValue(dst []byte, v float64) []byte {
	if i := int64(v); float64(i) == v && -exactInts <= i && i <= exactInts && (i != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(dst, i, 10)
	}
	if abs := math.Abs(v); abs == 0 || 1e-5 <= abs && abs < 1e17 {
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}
