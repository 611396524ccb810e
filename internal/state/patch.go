package state

import (
	"bytes"
	"slices"
	"strconv"
)

const (
	// sameAgain is how many equal bytes end a difference.
	sameAgain = 16
	// longestChange bounds, in bytes, what is searched for the end of a difference.
	longestChange = 512
)

// makePatch returns how to make a text of an old one: COPY,SKIP,LENGTH:TEXT for each difference, without spaces. The rest is copied.
// It is short if a few elements of a JSON text differ, are new or are gone.
func makePatch(old, text []byte) []byte {
	var p patch
	at := map[string][]int{} // where elements are in the old text
	for end := 0; end < len(old); {
		e := element(old[end:])
		at[string(e)] = append(at[string(e)], end)
		end += len(e)
	}
	from, fresh := 0, 0 // until where the old text is used, and the length of the elements that it lacks
	for end := 0; end < len(text); {
		e := element(text[end:])
		places := at[string(e)]
		if i, _ := slices.BinarySearch(places, from); i < len(places) {
			p.add(old[from:places[i]], text[end-fresh:end])
			p.same += len(e)
			from, fresh = places[i]+len(e), 0
		} else {
			fresh += len(e)
		}
		end += len(e)
	}
	p.add(old[from:], text[len(text)-fresh:])
	return p.text
}

// element returns a text until the end of its first JSON object in a list.
func element(text []byte) []byte {
	if i := bytes.Index(text, []byte("},")); i >= 0 {
		return text[:i+len("},")]
	}
	return text
}

// patch is a patch that is being made, with how many bytes are to be copied since its last difference.
type patch struct {
	text []byte
	same int
}

// add adds a part, for which the patch must be short if it differs in little.
func (p *patch) add(old, text []byte) {
	for {
		same := commonStart(old, text)
		p.same, old, text = p.same+same, old[same:], text[same:]
		if len(old)+len(text) == 0 {
			return
		}
		skip, insert := difference(old, text)
		for _, n := range []int{p.same, skip, insert} {
			p.text = append(strconv.AppendInt(p.text, int64(n), 10), ',')
		}
		p.text[len(p.text)-1] = ':'
		p.text = append(p.text, text[:insert]...)
		p.same, old, text = 0, old[skip:], text[insert:]
	}
}

func commonStart(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// difference returns after how many bytes of each two texts are the same again.
func difference(old, text []byte) (skip, insert int) {
	again := func(i, k int) bool {
		n := min(sameAgain, max(len(old)-i, len(text)-k))
		return n > 0 && i+n <= len(old) && k+n <= len(text) && old[i] == text[k] && bytes.Equal(old[i:i+n], text[k:k+n])
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
