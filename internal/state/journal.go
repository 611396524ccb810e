package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// journalHeader is the first line of a journal; its number is the version of the format. A new version must change how lines are
// checked too: a header of another version before lines of this one is damaged.
const journalHeader = "chatstack_exporter history 1\n"

// Journal is a file to which records are appended. It belongs to a state file, whose lock keeps other processes out. A damaged line costs
// one record, not the file. It is safe for concurrent use.
type Journal struct {
	path string
	mu   sync.Mutex
	file *os.File // nil if nothing is kept
	size int64
}

// Record is one line of a journal: a kind and its JSON.
type Record struct {
	Kind string
	Data json.RawMessage
}

// NewRecord encodes a value, which must be one that encoding/json accepts.
func NewRecord(kind string, value any) (Record, error) {
	raw, err := json.Marshal(value)
	return Record{kind, raw}, err
}

// OpenJournal opens the journal at path, or creates it, and calls read with every record, in the order of writing. Data is valid during
// the call only. read returns an error for a record that makes no sense.
//
// If records are damaged, the others are read, and the file is first copied to PATH.damaged-TIME; the notice says so. A record that the
// end of the former process cut off is dropped without a notice. With an empty path, and if the file cannot be opened or is of a newer
// version, the journal keeps nothing; the notice says why. History is not worth a watchdog that does not start.
func OpenJournal(path string, read func(Record) error) (_ *Journal, notice string) {
	j := &Journal{path: path}
	if path == "" {
		return j, ""
	}
	if err := j.open(read, &notice); err != nil {
		j.file = nil
		return j, fmt.Sprintf("history is lost at a restart: %v", withAdvice(err))
	}
	return j, notice
}

func (j *Journal) open(read func(Record) error, notice *string) error {
	if info, err := os.Lstat(j.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is %s, must be a regular file or absent", j.path, typeOf(info.Mode()))
	}
	removeTemporary(j.path)
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	good, damaged, err := readJournal(file, read)
	switch {
	case err != nil:
	case len(damaged) > 0:
		var raw []byte
		if raw, err = os.ReadFile(j.path); err != nil {
			break
		}
		var copied string
		if copied, err = copyDamaged(j.path, raw); err == nil {
			*notice = fmt.Sprintf("%d records of the history file %s were damaged and are left out; a copy of the file is %s",
				len(damaged), j.path, copied)
			good, err = rewriteWithout(file, raw, damaged)
		}
	case good == 0:
		good, err = rewriteWithout(file, nil, nil)
	default:
		err = file.Truncate(good)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size = file, good
	return nil
}

// readJournal calls read with every valid record. good is the length up to the last complete line, damaged has the indexes of the lines
// that are no valid records.
func readJournal(file io.Reader, read func(Record) error) (good int64, damaged []int, err error) {
	lines := bufio.NewReaderSize(file, 64<<10)
	newer := "" // the version in the header, until a line shows that the header is damaged
	for i := 0; ; i++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return 0, nil, err
		}
		if err == io.EOF {
			if newer != "" {
				return 0, nil, fmt.Errorf("it is of a newer version (%s): use the newer exporter, or rename the file", newer)
			}
			if i == 0 && len(line) > 0 && !strings.HasPrefix(journalHeader, string(line)) {
				damaged = append(damaged, i)
			}
			return good, damaged, nil
		}
		good += int64(len(line))
		if i == 0 {
			if name, number, _ := strings.Cut(strings.TrimSpace(string(line)), " history "); name == "chatstack_exporter" && number > "1" {
				newer = number
			}
			if string(line) != journalHeader {
				damaged = append(damaged, i)
			}
			continue
		}
		r, ok := parseRecord(line)
		if ok {
			newer = ""
		}
		if !ok || read(r) != nil {
			damaged = append(damaged, i)
		}
	}
}

// parseRecord parses "CHECKSUM KIND JSON".
func parseRecord(line []byte) (r Record, ok bool) {
	sum, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	kind, data, _ := bytes.Cut(rest, []byte(" "))
	return Record{string(kind), data}, string(sum) == checksum(rest)
}

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }

func (r *Record) encode(into []byte) []byte {
	rest := append([]byte(r.Kind+" "), r.Data...)
	return fmt.Appendf(into, "%s %s\n", checksum(rest), rest)
}

// copyDamaged writes a copy, so that nothing that might be read by other means is lost.
func copyDamaged(path string, raw []byte) (string, error) {
	copied := fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102T150405Z"))
	return copied, os.WriteFile(copied, raw, 0o600)
}

// rewriteWithout writes the complete lines but the damaged ones, and returns their length.
func rewriteWithout(file *os.File, raw []byte, damaged []int) (int64, error) {
	kept, i := []byte(journalHeader), 0
	for line := range bytes.Lines(raw) {
		if i > 0 && bytes.HasSuffix(line, []byte("\n")) && !slices.Contains(damaged, i) {
			kept = append(kept, line...)
		}
		i++
	}
	_, err := file.WriteAt(kept, 0)
	return int64(len(kept)), errors.Join(err, file.Truncate(int64(len(kept))))
}

// Append writes records. After it returns nil, they are on the disk, if the journal has a file.
func (j *Journal) Append(records ...Record) error {
	var raw []byte
	for i := range records {
		raw = records[i].encode(raw)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil || len(raw) == 0 {
		return nil
	}
	_, err := j.file.WriteAt(raw, j.size) // a record of which only a part was written is overwritten
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write history: %w", withAdvice(err))
	}
	j.size += int64(len(raw))
	return nil
}

// Rewrite replaces all records. After an error, the file has the old ones.
func (j *Journal) Rewrite(records iter.Seq[Record]) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := replaceFile(j.path, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 64<<10)
		b.WriteString(journalHeader) //nolint:errcheck // Flush returns it
		for r := range records {
			b.Write(r.encode(nil)) //nolint:errcheck // Flush returns it
		}
		return b.Flush()
	})
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(j.path, os.O_RDWR, 0)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err != nil {
		return fmt.Errorf("write history: %w", withAdvice(err))
	}
	old := j.file
	j.file, j.size = file, info.Size()
	return old.Close()
}

// Size returns the file's size in bytes, 0 if nothing is kept.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Close closes the file. Afterwards nothing is kept.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	file := j.file
	j.file, j.size = nil, 0
	return file.Close()
}
