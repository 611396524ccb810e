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

// loadedFile finds the file that a server loads its certificate from. If several files match a glob, it prefers the one with
// the served certificate, then the latest one for the server's name or for a name of the served certificate.
func loadedFile(pattern, name string, served *x509.Certificate) (certificateFile, error) {
	files, err := readCertificateFiles(pattern)
	if err != nil && len(files) == 0 {
		return certificateFile{}, err
	}
	if !config.IsGlob(pattern) {
		return files[0], nil
	}
	if i := slices.IndexFunc(files, func(f certificateFile) bool { return served != nil && f.leaf.Equal(served) }); i >= 0 {
		return files[i], nil
	}
	fitting := slices.DeleteFunc(files, func(f certificateFile) bool {
		return f.leaf.VerifyHostname(name) != nil && !sharesName(f.leaf, served)
	})
	if len(fitting) == 0 {
		if err != nil {
			return certificateFile{}, err
		}
		return certificateFile{}, failure.Errorf(failure.Mismatch, "certificate_file: no file that matches %s is for %s", pattern, name)
	}
	return slices.MaxFunc(fitting, func(a, b certificateFile) int {
		return cmp.Or(a.leaf.NotBefore.Compare(b.leaf.NotBefore), a.leaf.NotAfter.Compare(b.leaf.NotAfter))
	}), nil
}

// sharesName reports whether two certificates have a name in common. So a server has its file even if the exporter reaches
// it under a name that the certificate does not have.
func sharesName(leaf, served *x509.Certificate) bool {
	return served != nil && slices.ContainsFunc(served.DNSNames, func(name string) bool { return slices.Contains(leaf.DNSNames, name) })
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
		return nil, failure.Errorf(failure.TooLarge, "certificate_file %s: matches %d files, more than %d", pattern, len(paths), maxCertificateFiles).
			WithHint("match fewer files; leave out archives of old certificates")
	case len(paths) > 0:
		return paths, nil
	}
	// A directory that may not be read looks empty to Glob.
	if _, err := os.ReadDir(parentOf(pattern)); err != nil {
		return nil, fileError(pattern, err)
	}
	return nil, fileError(pattern, fs.ErrNotExist)
}

// parentOf returns the deepest directory of a glob without wildcards.
func parentOf(pattern string) string {
	dir := filepath.Dir(pattern)
	for config.IsGlob(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
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
		var file certificateFile
		if file, err = loadedFile(trust.CertificateFile, trust.ServerName, nil); err != nil {
			return err
		}
		files = []certificateFile{file}
	}
	if len(files) == 0 {
		return err
	}
	first := slices.MinFunc(files, func(a, b certificateFile) int { return a.leaf.NotAfter.Compare(b.leaf.NotAfter) })
	r.Certificate.File, r.Certificate.Limits = validityOf(first.leaf), trust.CertificateExpiry
	r.NoteOnce(fmt.Sprintf("of %d certificate files, %s expires first", len(files), first.path))
	return err
}
