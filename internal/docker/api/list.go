package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// maxListEntry bounds one container in a list.
const maxListEntry = 1 << 20

// hintLargeContainer is for a limit that no setting of the exporter raises.
const hintLargeContainer = "the labels, environment or names of one container exceed what the exporter reads (1 MiB): recreate it with less"

var errLargeContainer = failure.Errorf(failure.TooLarge, "one container has more than %d bytes", maxListEntry).WithHint(hintLargeContainer)

// listedContainer has the fields of a container in a list that the exporter uses.
type listedContainer struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	Created int64
	Labels  map[string]string
	State   string
	Status  string
}

// maxID bounds an id. validID matches ids that are safe in the path of a call.
const maxID = 255

var validID = regexp.MustCompile(`^` + pathSegment + `$`)

// readList reads a list one container at a time, so that only containers that choose keeps use memory. An error is a
// failure.Error, or comes from the decoder or the reader.
func readList(r io.Reader, choose func(*container.Summary)) error {
	part := &io.LimitedReader{R: r, N: maxListEntry}
	d := json.NewDecoder(part)
	switch begin, err := d.Token(); {
	case err != nil && part.N <= 0:
		return errLargeContainer
	case err != nil:
		return err
	case begin == nil: // null is an empty list
		return nil
	case begin != json.Delim('['):
		return errors.New("the list of containers is not an array")
	}
	var invalid error
	one := listedContainer{Labels: map[string]string{}}
	for part.N = maxListEntry; d.More(); part.N = maxListEntry {
		clear(one.Labels)
		one = listedContainer{Labels: one.Labels}
		err := d.Decode(&one)
		switch {
		case err != nil && part.N <= 0:
			return errLargeContainer
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case !validID.MatchString(one.ID) || len(one.ID) > maxID:
			// The guard would refuse a call with it and report an internal error.
			invalid = cmp.Or(invalid, error(failure.Errorf(failure.Malformed, "%q is not a container id", failure.OneLine(one.ID))))
			continue
		}
		choose(&container.Summary{
			ID:      one.ID,
			Names:   one.Names,
			Image:   one.Image,
			Created: one.Created,
			Labels:  one.Labels,
			State:   one.State,
			Status:  one.Status,
		})
	}
	switch _, err := d.Token(); {
	case err != nil && part.N <= 0:
		return errLargeContainer
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	return invalid
}
