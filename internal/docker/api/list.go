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

// hintLargeContainer is for what no setting of the exporter mends.
const hintLargeContainer = "one container has more labels, environment or names than the exporter reads (1 MiB): make it anew with less"

// listedContainer is the part of a container in a list that is used.
type listedContainer struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	Created int64
	Labels  map[string]string
	State   string
	Status  string
}

// maxID bounds an id. validID matches one that cannot change the path of a call that it becomes part of.
const maxID = 255

var validID = regexp.MustCompile(`^` + pathSegment + `$`)

// readList reads a list one container at a time, so that only what choose keeps takes memory. An error is a failure.Error, or
// one of the decoder and the reader.
func readList(r io.Reader, choose func(*container.Summary)) error {
	part := &io.LimitedReader{R: r, N: maxListEntry}
	d := json.NewDecoder(part)
	switch begin, err := d.Token(); {
	case err != nil:
		return err
	case begin == nil: // null is an empty list
		return nil
	case begin != json.Delim('['):
		return errors.New("the list of containers is no array")
	}
	var invalid error
	one := listedContainer{Labels: map[string]string{}}
	for part.N = maxListEntry; d.More(); part.N = maxListEntry {
		clear(one.Labels)
		one = listedContainer{Labels: one.Labels}
		err := d.Decode(&one)
		switch {
		case err != nil && part.N <= 0:
			return failure.Errorf(failure.TooLarge, "one of the containers has more than %d bytes", maxListEntry).WithHint(hintLargeContainer)
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case !validID.MatchString(one.ID) || len(one.ID) > maxID:
			// The guard would refuse a call with it, as if that were a fault of the exporter.
			invalid = cmp.Or(invalid, error(failure.Errorf(failure.Malformed, "%q is no id", failure.OneLine(one.ID))))
			continue
		}
		choose(&container.Summary{
			ID: one.ID, Names: one.Names, Image: one.Image, Created: one.Created, Labels: one.Labels, State: one.State, Status: one.Status,
		})
	}
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	return invalid
}
