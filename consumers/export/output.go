package export

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Output is one file that is written, and is not there under its name until it
// is whole. A name that ends in .zst is compressed; "-" is standard output.
type Output struct {
	path string
	file *os.File
	zstd *zstd.Encoder
	buf  *bufio.Writer
	sum  hash.Hash
	// Bytes are those before compression.
	Bytes int64
}

const partial = ".partial"

// Create opens an output; what is there is left alone.
func Create(path string, stdout io.Writer) (*Output, error) {
	o := &Output{path: path, sum: sha256.New()}
	if path == "-" {
		o.buf = bufio.NewWriterSize(stdout, 1<<16)
		return o, nil
	}
	if err := Free(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	f, err := os.Create(path + partial)
	if err != nil {
		return nil, fmt.Errorf("create export: %w; name another place with -o", err)
	}
	o.file, o.buf = f, bufio.NewWriterSize(f, 1<<18)
	if strings.HasSuffix(path, ".zst") {
		o.zstd, err = zstd.NewWriter(o.buf, zstd.WithEncoderConcurrency(1))
	}
	return o, err
}

// Free reports that there is nothing at path yet.
func Free(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists: remove it, or name another place with -o", path)
	}
	return nil
}

// Write takes bytes before compression.
func (o *Output) Write(b []byte) (int, error) {
	o.sum.Write(b)
	o.Bytes += int64(len(b))
	if o.zstd != nil {
		return o.zstd.Write(b)
	}
	return o.buf.Write(b)
}

// Digest is the SHA-256 of the bytes before compression, in hex.
func (o *Output) Digest() string { return hex.EncodeToString(o.sum.Sum(nil)) }

// Commit finishes the file and gives it its name.
func (o *Output) Commit() error {
	var err error
	if o.zstd != nil {
		err = o.zstd.Close()
	}
	if err = errors.Join(err, o.buf.Flush()); err == nil && o.file != nil {
		if err = errors.Join(o.file.Sync(), o.file.Close()); err == nil {
			err = os.Rename(o.path+partial, o.path)
		}
	}
	if err != nil {
		return fmt.Errorf("finish export: %w", err)
	}
	return nil
}

// Discard removes what is not committed.
func (o *Output) Discard() {
	if o.file != nil {
		o.file.Close()              //nolint:errcheck // it goes away
		os.Remove(o.path + partial) //nolint:errcheck // it may be committed
	}
}

// Source opens a file that is read, decompressed if its name ends in .zst.
func Source(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".zst") {
		return f, err
	}
	z, err := zstd.NewReader(bufio.NewReaderSize(f, 1<<18), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &unpacked{z.IOReadCloser(), f}, nil
}

type unpacked struct {
	io.ReadCloser
	file *os.File
}

func (u *unpacked) Close() error { return errors.Join(u.ReadCloser.Close(), u.file.Close()) }
