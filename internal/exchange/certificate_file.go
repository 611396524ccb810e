package exchange

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// certificateFile is the first certificate of a PEM file, which is the one that a server presents.
type certificateFile struct {
	path string
	leaf *x509.Certificate
}

const (
	// maxCertificateFile bounds one file; a chain has a few kilobytes.
	maxCertificateFile = 1 << 20
	// maxCertificateFiles bounds how many files a glob may match.
	maxCertificateFiles = 1000
)

// loadableFiles finds the files that a server may load its certificates from. Of those that match a glob, these are the files with a
// served certificate, for the server's name, or for a name of a served certificate. There is at least one without an error.
func loadableFiles(pattern, name string, served []*x509.Certificate) ([]certificateFile, error) {
	files, err := readCertificateFiles(pattern)
	if err != nil && len(files) == 0 {
		return nil, err
	}
	if !config.IsGlob(pattern) {
		return files, nil
	}
	fitting := slices.DeleteFunc(files, func(f certificateFile) bool {
		return f.leaf.VerifyHostname(name) != nil &&
			!slices.ContainsFunc(served, func(s *x509.Certificate) bool { return s.Equal(f.leaf) || sharesName(f.leaf, s) })
	})
	switch {
	case len(fitting) > 0:
		return fitting, nil
	case err != nil:
		return nil, err
	}
	return nil, failure.Errorf(failure.Mismatch, "certificate_file: no file that matches %s is for %s", pattern, name)
}

// comparison is what the files of a server say about the certificates that it serves.
type comparison struct {
	// loaded are the files with a served certificate. renewed are those that the server should have loaded instead of a served
	// certificate of the same algorithm, which is in stale.
	loaded, renewed []certificateFile
	stale           []*x509.Certificate
	// unserved is the file of another algorithm than all served certificates, if there is one; of several, the latest.
	unserved []certificateFile
}

// compareFiles compares files, at least one, with the served certificates. If several could replace one, the latest should.
func compareFiles(files []certificateFile, served []*x509.Certificate) (c comparison) {
	rest := slices.Clone(files)
	for _, s := range served {
		same := slices.DeleteFunc(slices.Clone(files), func(f certificateFile) bool { return isRSA(f.leaf) != isRSA(s) })
		rest = slices.DeleteFunc(rest, func(f certificateFile) bool { return isRSA(f.leaf) == isRSA(s) })
		if i := slices.IndexFunc(same, func(f certificateFile) bool { return f.leaf.Equal(s) }); i >= 0 {
			c.loaded = append(c.loaded, same[i])
		} else if len(same) > 0 {
			c.renewed, c.stale = append(c.renewed, latestFile(same)), append(c.stale, s)
		}
	}
	switch {
	case len(served) == 0:
		c.loaded = []certificateFile{latestFile(files)}
	case len(rest) > 0:
		c.unserved = []certificateFile{latestFile(rest)}
	}
	return c
}

// end returns the first of the server's files to expire. One that it need not load counts only if there is no other.
func (c *comparison) end() Validity {
	files := slices.Concat(c.loaded, c.renewed)
	if len(files) == 0 {
		files = c.unserved
	}
	var leaves []*x509.Certificate
	for _, f := range files {
		leaves = append(leaves, f.leaf)
	}
	return validityOf(firstToEnd(leaves))
}

func firstToEnd(list []*x509.Certificate) *x509.Certificate {
	return slices.MinFunc(list, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// latestFile returns the file whose certificate was issued last.
func latestFile(files []certificateFile) certificateFile {
	return slices.MaxFunc(files, func(a, b certificateFile) int {
		return cmp.Or(a.leaf.NotBefore.Compare(b.leaf.NotBefore), a.leaf.NotAfter.Compare(b.leaf.NotAfter))
	})
}

// sharesName reports whether two certificates have a name in common. So a server has its file even if the exporter reaches
// it under a name that the certificate does not have.
func sharesName(leaf, served *x509.Certificate) bool {
	return slices.ContainsFunc(served.DNSNames, func(name string) bool { return slices.Contains(leaf.DNSNames, name) })
}

// readCertificateFiles reads the file at a path, or every file that matches a glob, sorted by path. It returns the files
// that it could read even with an error, which is that of the first other file.
func readCertificateFiles(pattern string) ([]certificateFile, error) {
	paths := []string{pattern}
	if config.IsGlob(pattern) {
		var err error
		if paths, err = glob(pattern); err != nil {
			return nil, err
		}
	}
	var files []certificateFile
	var first error
	for _, path := range paths {
		leaf, err := readLeaf(path)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		files = append(files, certificateFile{path, leaf})
	}
	return files, first
}

func glob(pattern string) ([]string, error) {
	paths, err := filepath.Glob(pattern)
	switch {
	case err != nil:
		return nil, failure.Errorf(failure.Internal, "certificate_file %s: %w", pattern, err)
	case len(paths) > maxCertificateFiles:
		return nil, failure.Errorf(failure.TooLarge, "certificate_file %s: matches %d files, more than %d",
			pattern, len(paths), maxCertificateFiles).
			WithHint("match fewer files; leave out archives of old certificates")
	case len(paths) > 0:
		return paths, nil
	}
	// A directory that may not be read looks empty to Glob.
	if _, err := os.ReadDir(config.GlobParent(pattern)); err != nil {
		return nil, fileError(pattern, err)
	}
	return nil, fileError(pattern, fs.ErrNotExist)
}

func readLeaf(path string) (*x509.Certificate, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, failure.Errorf(failure.Malformed, "certificate_file %s: not a regular file", path)
	}
	if info.Size() > maxCertificateFile {
		return nil, failure.Errorf(failure.TooLarge, "certificate_file %s: more than %d bytes", path, maxCertificateFile)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return nil, failure.Errorf(failure.Malformed, "certificate_file %s: contains no PEM certificate", path).
				WithHint("set certificate_file to the PEM file that the server loads its certificate from; a key alone is not enough")
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, failure.Errorf(failure.Malformed, "certificate_file %s: %w", path, err)
		}
		return leaf, nil
	}
}

// fileError returns the failure of a file that cannot be read.
func fileError(path string, err error) *failure.Error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err // our message names the path
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return failure.Errorf(failure.Forbidden, "certificate_file %s: %w", path, err).
			WithHint("allow the exporter's user to read the certificate and to enter every directory above it; the key may stay unreadable")
	case errors.Is(err, fs.ErrNotExist):
		return failure.Errorf(failure.NotFound, "certificate_file %s: no such file", path).
			WithHint("write the path as the exporter sees it: in a container, the directory must be mounted")
	default:
		return failure.Errorf(failure.Internal, "certificate_file %s: %w", path, err)
	}
}

// RecordCertificateFiles records when certificate files expire, without connecting: of several, the first to expire or the one
// for the server's name, if set. It returns the error of a file that cannot be read.
func RecordCertificateFiles(r *Record, trust *config.TLS) error {
	files, err := readCertificateFiles(trust.CertificateFile)
	if trust.ServerName != "" {
		if files, err = loadableFiles(trust.CertificateFile, nameFor(trust, ""), nil); err != nil {
			return err
		}
		files = []certificateFile{latestFile(files)}
	}
	if len(files) == 0 {
		return err
	}
	first := slices.MinFunc(files, func(a, b certificateFile) int { return a.leaf.NotAfter.Compare(b.leaf.NotAfter) })
	r.Certificate.File, r.Certificate.Limits = validityOf(first.leaf), trust.CertificateExpiry
	r.NoteOnce(fmt.Sprintf("of %d certificate files, %s expires first", len(files), first.path))
	return err
}
