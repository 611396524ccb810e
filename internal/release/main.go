// Command release makes the archives that are published: for each platform one with everything that runs the exporter,
// and beside them what it consists of.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const name = "chatstack_exporter"

// shipped are the files and directories of the repository that go into each archive: what a user needs, and what those
// link to.
var shipped = []string{
	"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "exporter.yaml",
	"alerts/chatstack.rules.yml", "alerts/chatstack.recording.yml", "alerts/runbooks", "dashboards", "deploy",
	"internal/bench/charts", "internal/bench/results.json", "internal/web/pictures",
	"internal/web/assets/uplot/LICENSE", "internal/web/assets/uplot/README.md",
}

// unshipped are endings of files below shipped directories that are for developers.
var unshipped = []string{".go", "_test.yml", "/testdata"}

var architectures = []string{"amd64", "arm64"}

func main() {
	version := flag.String("version", "", "what is released, without a leading v")
	ldflags := flag.String("ldflags", "", "for the linker")
	out := flag.String("out", "dist", "directory of the archives; what is in it is replaced")
	when := flag.Int64("time", 0, "modification time of everything, in seconds since 1970")
	extras := flag.String("extras", "", "write only what is installed beside this binary to the directory: man page, completions, the proxy's configuration and, of a clone, documents")
	flag.Parse()
	var err error
	if *extras != "" {
		err = writeExtras(context.Background(), *extras, *out)
	} else {
		err = release(context.Background(), *version, *ldflags, *out, time.Unix(*when, 0).UTC())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// file is one file of an archive.
type file struct {
	path    string
	mode    int64
	content []byte
}

func release(ctx context.Context, version, ldflags, out string, when time.Time) error {
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	if err := releasable(version, string(changes)); err != nil {
		return err
	}
	changed, err := run(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(changed) != 0 {
		return fmt.Errorf("release %s: what is not committed would be in it: commit it or take it away\n%s", version, bytes.TrimRight(changed, "\n"))
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // published
		return err
	}
	common, err := repositoryFiles(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	ownBinary, err := build(ctx, dir, runtime.GOOS, runtime.GOARCH, ldflags)
	if err != nil {
		return err
	}
	extra, err := extrasOf(ctx, ownBinary)
	if err != nil {
		return err
	}
	common = append(common, extra...)
	proxy, err := proxyOnUnixSocket()
	if err != nil {
		return err
	}
	common = append(common, proxy)
	published := map[string][]byte{}
	for _, arch := range architectures {
		built, err := build(ctx, dir, "linux", arch, ldflags)
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(built)
		if err != nil {
			return err
		}
		parts, err := modules(ctx, binary)
		if err != nil {
			return err
		}
		bom, err := billOfMaterials(version, arch, parts, when)
		if err != nil {
			return err
		}
		base := name + "-" + version + ".linux-" + arch
		files := append(slices.Clone(common),
			file{name, 0o755, binary}, file{"THIRD_PARTY_LICENSES.txt", 0o644, licenceTexts(parts)}, file{"sbom.cdx.json", 0o644, bom})
		archive, err := pack(base, files, when)
		if err != nil {
			return err
		}
		published[base+".tar.gz"] = archive
		published[base+".cdx.json"] = bom
	}
	var sums bytes.Buffer
	for _, name := range sortedKeys(published) {
		if err := os.WriteFile(filepath.Join(out, name), published[name], 0o644); err != nil { //nolint:gosec // published
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(published[name]), name)
	}
	return os.WriteFile(filepath.Join(out, "sha256sums.txt"), sums.Bytes(), 0o644) //nolint:gosec // published
}

var versions = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-rc(\.?[0-9]+)?)?$`)

// releasable tells a version that can be published from what git calls a commit between two of them. The changelog must
// have its section, which no longer says "(unreleased)"; a candidate needs none.
func releasable(version, changelog string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("release %q: not a version: name it, as in make release VERSION=1.2.3 or VERSION=1.2.3-rc.1", version)
	}
	section := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `( \([0-9-]+\))?$`)
	if !strings.Contains(version, "-rc") && !section.MatchString(changelog) {
		return fmt.Errorf("release %s: CHANGELOG.md has no section \"## %s\", with or without a date", version, version)
	}
	return nil
}

// repositoryFiles are the shipped ones as they are committed or would be: what is ignored stays out.
func repositoryFiles(ctx context.Context) ([]file, error) {
	listed, err := run(ctx, nil, "git", append([]string{"ls-files", "-z", "--"}, shipped...)...)
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("git ls-files: none of the documents is there")
	}
	var files []file
	for p := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		if slices.ContainsFunc(unshipped, func(s string) bool { return strings.HasSuffix(p, s) || strings.Contains(p, s+"/") }) {
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		files = append(files, file{p, modeOf(info), content})
	}
	return files, nil
}

// modeOf is one of two modes, since the rest of them depends on who checked the repository out.
func modeOf(info fs.FileInfo) int64 {
	if info.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// build returns the path of the binary, which is below dir.
func build(ctx context.Context, dir, goos, arch, ldflags string) (string, error) {
	target := filepath.Join(dir, goos, arch, name)
	_, err := run(ctx, []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=", "GOARM64=", "GOEXPERIMENT="},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", target, "./cmd/"+name)
	return target, err
}

// extras are what the program writes of itself, by their path in an archive.
var extras = map[string]string{
	"man/" + name + ".1":            "--help-man",
	"completions/" + name + ".bash": "--completion-script-bash",
	"completions/_" + name:          "--completion-script-zsh",
}

func extrasOf(ctx context.Context, binary string) ([]file, error) {
	files := make([]file, 0, len(extras))
	for _, p := range sortedKeys(extras) {
		content, err := run(ctx, nil, binary, extras[p])
		if err != nil {
			return nil, err
		}
		if len(content) == 0 {
			return nil, fmt.Errorf("%s %s: it wrote nothing", binary, extras[p])
		}
		if strings.HasPrefix(p, "man/") {
			// What stands before the first section is the title, into which kingpin writes all that it knows of the build.
			_, sections, _ := bytes.Cut(content, []byte(".SH "))
			content = append([]byte(".TH "+name+" 1\n.SH "), sections...)
		}
		files = append(files, file{p, 0o644, content})
	}
	return files, nil
}

// proxyOnUnixSocket is the configuration of the proxy before Docker as chatstack_docker_proxy.service wants it.
func proxyOnUnixSocket() (file, error) {
	const source = "deploy/socket-proxy/nginx.conf"
	content, err := os.ReadFile(source)
	if err != nil {
		return file{}, err
	}
	for old, replacement := range map[string]string{
		"listen 2375;": "listen unix:/run/chatstack_docker_proxy/docker.sock;",
		// A service has no /dev/stdout that can be opened; its refusals go to the journal by another way.
		"/dev/stdout refusal": "syslog:server=unix:/dev/log,nohostname refusal",
	} {
		if n := bytes.Count(content, []byte(old)); n != 1 {
			return file{}, fmt.Errorf("%s: %q stands there %d times, not once", source, old, n)
		}
		content = bytes.Replace(content, []byte(old), []byte(replacement), 1)
	}
	return file{"deploy/systemd/docker_proxy.nginx.conf", 0o644, content}, nil
}

func writeExtras(ctx context.Context, binary, out string) error {
	files, err := extrasOf(ctx, binary)
	if err != nil {
		return err
	}
	proxy, err := proxyOnUnixSocket()
	if err != nil {
		return err
	}
	files = append(files, file{path.Base(proxy.path), proxy.mode, proxy.content})
	// Beside a clone's own files there may be secrets of whoever works in it, so that only git can tell what is a document.
	documents, err := repositoryFiles(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: no documents will be installed: %v\n", err)
	} else {
		documents = append(documents, proxy)
	}
	for _, d := range documents {
		d.path = path.Join("doc", d.path)
		files = append(files, d)
	}
	for _, f := range files {
		target := filepath.Join(out, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // published
			return err
		}
		if err := os.WriteFile(target, f.content, os.FileMode(f.mode)); err != nil {
			return err
		}
	}
	return nil
}

// pack makes an archive that depends on nothing but what is in it.
func pack(base string, files []file, when time.Time) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var b bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(base, f.path), Mode: f.mode, Size: int64(len(f.content)),
			ModTime: when, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// run returns what a command wrote; with an error, that says what it complained of.
func run(ctx context.Context, env []string, command string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(cmd.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// modules are the ones that a binary is made of, with their licences; the standard library is the first.
func modules(ctx context.Context, binary []byte) ([]module, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read what the binary is made of: %w", err)
	}
	goRoot, err := run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	parts := []module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), dir: strings.TrimSpace(string(goRoot))}}
	ask := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced by %s: nobody could build that elsewhere", d.Path, d.Replace.Path)
		}
		ask = append(ask, d.Path+"@"+d.Version)
		parts = append(parts, module{Path: d.Path, Version: d.Version})
	}
	dirs, err := run(ctx, nil, "go", ask...)
	if err != nil {
		return nil, err
	}
	for i, dir := range strings.Split(strings.TrimSpace(string(dirs)), "\n") {
		parts[i+1].dir = dir
	}
	chart, err := chartLibrary()
	if err != nil {
		return nil, err
	}
	parts = append(parts, chart)
	for i := range parts {
		if err := parts[i].readLicence(); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
