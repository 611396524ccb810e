package incident

import (
	"testing"
	"time"
)

// TestProblemKnowsItsFirstTimeAndItsAlert: a problem that returns has a new beginning, but users heard of the first.
func TestProblemKnowsItsFirstTimeAndItsAlert(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(6 * time.Minute)
	first := w.newest().Problems[0]
	if first.First.IsZero() || !first.First.Equal(first.Since) || !first.Alerted.After(first.First) || first.Alerted.After(w.Now) {
		t.Fatalf("got %+v", first)
	}
	w.target("lone").Up = true
	w.pass(time.Minute)
	w.target("lone").Up = false
	w.pass(time.Minute)
	w.restart(10 * time.Second)
	again := w.newest().Problems[0]
	if !again.First.Equal(first.First) || !again.Alerted.Equal(first.Alerted) || !again.Since.After(first.Alerted) {
		t.Errorf("after it returned: got %+v, want the times of %+v", again, first)
	}
	w.pass(10 * time.Minute)
	if last := w.newest().Problems[0]; !last.Alerted.After(again.Since) {
		t.Errorf("after its second alert: got %+v", last)
	}
}

// TestUpdatesAreNoNotes: they are texts of their own, which survive a restart and a merge.
func TestUpdatesAreNoNotes(t *testing.T) {
	w := newWorld(t)
	w.target("web2").Container = ""
	w.target("web").Up = false
	w.pass(time.Minute)
	w.target("web2").Up = false
	w.pass(6 * time.Minute)
	younger, older := w.log.All()[0], w.log.All()[1]
	i, err := w.wrote(w.log.AddUpdate(w.Now, younger.ID, "Ann", " We are on it. "))
	if err != nil || len(i.Notes) != 0 || len(younger.Updates) != 0 {
		t.Fatalf("got %+v, %v", i, err)
	}
	if _, err := w.wrote(w.log.AddNote(w.Now, older.ID, "Ann", "The disk.")); err != nil {
		t.Fatal(err)
	}
	w.target("web2").Container = "web"
	w.pass(time.Minute)
	w.restart(10 * time.Second)
	older = w.log.All()[1]
	if len(older.Updates) != 1 || older.Updates[0].Text != "We are on it." || len(older.Notes) != 1 || older.Notes[0].Text != "The disk." {
		t.Errorf("got the updates %+v and the notes %+v", older.Updates, older.Notes)
	}
	for range maxNotes {
		_, _ = w.wrote(w.log.AddUpdate(w.Now, older.ID, "", "again"))
	}
	if got := w.log.All()[1]; len(got.Updates) != maxNotes || len(got.Notes) != 1 {
		t.Errorf("got %d updates and %d notes", len(got.Updates), len(got.Notes))
	}
}
