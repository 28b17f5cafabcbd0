package export

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/headrace/headrace/subjects"
)

const (
	shardBytes    = 256 << 20 // of a file, compressed
	rowGroupBytes = 32 << 20  // of rows in memory
)

// dataset is a folder in the layout of Hugging Face datasets: shards in data/
// and a card. It is written beside its place and moved there when it is whole.
type dataset struct {
	head    *Header
	dir     string
	work    string // dir, until it is whole
	shards  []string
	limit   int64 // of a shard
	file    *os.File
	table   *parquet.GenericWriter[row]
	written counted
	sum     hash.Hash
	pending int // bytes of rows in the open row group
	rows    uint64
	bytes   int64
}

// counted counts what goes into a shard.
type counted struct {
	to io.Writer
	n  int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}

func newDataset(h *Header, dir string) (*dataset, error) {
	if dir == "-" {
		return nil, errors.New("parquet is a folder: name one with -o")
	}
	if err := Free(dir); err != nil {
		return nil, err
	}
	d := &dataset{head: h, dir: dir, work: filepath.Clean(dir) + partial, limit: shardBytes, sum: sha256.New()}
	err := os.RemoveAll(d.work)
	if err == nil {
		err = os.MkdirAll(filepath.Join(d.work, "data"), 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make folder: %w; name another place with -o", err)
	}
	return d, d.open()
}

// open begins a shard. Its name says how many there are, so it comes at the end.
func (d *dataset) open() (err error) {
	name := filepath.Join(d.work, "data", fmt.Sprintf("shard-%05d", len(d.shards)))
	if d.file, err = os.Create(name); err != nil {
		return fmt.Errorf("create export: %w", err)
	}
	d.shards = append(d.shards, name)
	d.written = counted{to: io.MultiWriter(d.file, d.sum)}
	d.table = parquet.NewGenericWriter[row](&d.written, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("headrace", "", ""),
		parquet.KeyValueMetadata("headrace_run", string(d.head.Run)))
	return nil
}

func (d *dataset) Write(r *Record, at subjects.Address) error {
	if d.written.n >= d.limit {
		if err := errors.Join(d.shut(), d.open()); err != nil {
			return err
		}
	}
	for _, v := range rows(r, at) {
		if _, err := d.table.Write([]row{v}); err != nil {
			return err
		}
		d.rows++
		if d.pending += v.size(); d.pending >= rowGroupBytes {
			d.pending = 0
			if err := d.table.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// shut ends a shard.
func (d *dataset) shut() error {
	err := d.table.Close()
	d.pending, d.bytes = 0, d.bytes+d.written.n
	return errors.Join(err, d.file.Sync(), d.file.Close())
}

// Close gives the shards their names and writes the card.
func (d *dataset) Close() error {
	if err := d.shut(); err != nil {
		return err
	}
	for i, from := range d.shards {
		d.shards[i] = filepath.Join("data", fmt.Sprintf("train-%05d-of-%05d.parquet", i, len(d.shards)))
		if err := os.Rename(from, filepath.Join(d.work, d.shards[i])); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(d.work, "README.md"), []byte(d.card()), 0o644)
}

func (d *dataset) commit(r *Result) error {
	for _, s := range d.shards {
		r.Files = append(r.Files, filepath.Join(d.dir, s))
	}
	r.Files = append(r.Files, filepath.Join(d.dir, "README.md"))
	r.Rows, r.Bytes, r.Digest = d.rows, d.bytes, hex.EncodeToString(d.sum.Sum(nil))
	if err := os.Rename(d.work, d.dir); err != nil {
		return fmt.Errorf("finish export: %w", err)
	}
	return nil
}

func (d *dataset) discard() {
	d.file.Close()       //nolint:errcheck // closed already, or it goes away
	os.RemoveAll(d.work) //nolint:errcheck // gone already, if it was committed
}
