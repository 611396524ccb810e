package exchange

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestUnreadableCertificateFilesHaveTheirReason(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	exchangetest.Write(t, at("good/a.pem"), exchangetest.Certificate{Names: []string{"chat.test"}, End: exchangetest.SecondDay}.Make(t))
	t.Run("no permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			err := fileError("/secret.pem", &os.PathError{Op: "open", Path: "/secret.pem", Err: os.ErrPermission})
			wantReason(t, err, failure.Forbidden)
			return
		}
		if err := os.Chmod(at("good"), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(at("good"), 0o700) //nolint:errcheck,gosec // so that it can be removed
		for _, file := range []string{at("good/a.pem"), at("good/*.pem")} {
			_, err := readCertificateFiles(file)
			wantReason(t, err, failure.Forbidden)
		}
	})
	t.Run("too many", func(t *testing.T) {
		many := t.TempDir()
		for i := range maxCertificateFiles + 1 {
			if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("%d.pem", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := readCertificateFiles(filepath.Join(many, "*.pem"))
		wantReason(t, err, failure.TooLarge)
	})
}

// TestServedCertificateGoesBeforeANewerOne has the file of the one that is served come first and last of those that a glob
// names.
func TestServedCertificateGoesBeforeANewerOne(t *testing.T) {
	dir := t.TempDir()
	old := exchangetest.Certificate{Names: []string{"chat.test"}, Begins: exchangetest.LongAgo, End: exchangetest.FirstDay}.Make(t)
	renewed := exchangetest.Certificate{Names: []string{"chat.test"}, End: exchangetest.SecondDay}.Make(t)
	other := exchangetest.Certificate{Names: []string{"chat.test"}, Begins: exchangetest.LongAgo, End: exchangetest.ThirdDay}.Make(t)
	files := map[*exchangetest.Certified]string{
		old:     exchangetest.Write(t, filepath.Join(dir, "a.pem"), old),
		renewed: exchangetest.Write(t, filepath.Join(dir, "b.pem"), renewed),
	}
	for served, want := range map[*exchangetest.Certified]string{old: files[old], renewed: files[renewed], other: files[renewed]} {
		shown := []*x509.Certificate{served.Cert}
		found, err := loadableFiles(filepath.Join(dir, "*.pem"), "chat.test", shown)
		if err != nil {
			t.Fatal(err)
		}
		c := compareFiles(found, shown)
		if got := append(c.loaded, c.renewed...); len(got) != 1 || got[0].path != want || len(c.unserved) > 0 {
			t.Errorf("got %+v, want %s", c, want)
		}
	}
}

func TestGlobBelowAFileIsToldFromOneOfNothing(t *testing.T) {
	file := exchangetest.Write(t, filepath.Join(t.TempDir(), "chain.pem"), exchangetest.Certificate{Names: []string{"chat.test"}}.Make(t))
	_, err := readCertificateFiles(filepath.Join(file, "*.pem"))
	wantReason(t, err, failure.Internal)
	if err != nil && !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("got %v, want what is wrong there", err)
	}
}
