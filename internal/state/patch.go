package state

import (
	"bytes"
	"strconv"
)

const (
	// sameAgain is how many equal bytes end a difference.
	sameAgain = 16
	// longestChange bounds, in bytes, what is searched for the end of a difference.
	longestChange = 512
)

// makePatch returns how to make a text of an old one: COPY,SKIP,LENGTH:TEXT for each difference, without spaces. The rest is copied.
// It is short for a few small differences, as between two JSON texts of a value.
func makePatch(old, text []byte) (patch []byte) {
	tail := 0
	for tail < min(len(old), len(text)) && old[len(old)-1-tail] == text[len(text)-1-tail] {
		tail++
	}
	old, text = old[:len(old)-tail], text[:len(text)-tail]
	for {
		same := 0
		for same < min(len(old), len(text)) && old[same] == text[same] {
			same++
		}
		old, text = old[same:], text[same:]
		if len(old)+len(text) == 0 {
			return patch
		}
		skip, insert := difference(old, text)
		patch = strconv.AppendInt(patch, int64(same), 10)
		patch = strconv.AppendInt(append(patch, ','), int64(skip), 10)
		patch = strconv.AppendInt(append(patch, ','), int64(insert), 10)
		patch = append(append(patch, ':'), text[:insert]...)
		old, text = old[skip:], text[insert:]
	}
}

// difference returns after how many bytes of each two texts are the same again.
func difference(old, text []byte) (skip, insert int) {
	again := func(i, k int) bool {
		return i+sameAgain <= len(old) && k+sameAgain <= len(text) && old[i] == text[k] &&
			bytes.Equal(old[i:i+sameAgain], text[k:k+sameAgain])
	}
	for far := range min(longestChange, max(len(old), len(text))) {
		for near := range far + 1 {
			if again(near, far) {
				return near, far
			}
			if again(far, near) {
				return far, near
			}
		}
	}
	return len(old), len(text)
}

// applyPatch applies a patch of makePatch. It returns false if the patch is invalid.
func applyPatch(old, patch []byte) (text []byte, ok bool) {
	text = make([]byte, 0, len(old)+len(patch))
	for len(patch) > 0 {
		var counts [3]int
		for i, end := range []string{",", ",", ":"} {
			number, rest, found := bytes.Cut(patch, []byte(end))
			n, err := strconv.Atoi(string(number))
			if !found || err != nil || n < 0 {
				return nil, false
			}
			counts[i], patch = n, rest
		}
		same, skip, insert := counts[0], counts[1], counts[2]
		if same > len(old) || skip > len(old)-same || insert > len(patch) {
			return nil, false
		}
		text = append(append(text, old[:same]...), patch[:insert]...)
		old, patch = old[same+skip:], patch[insert:]
	}
	return append(text, old...), true
}
