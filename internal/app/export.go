package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

type (
	// ExportFormat is one of [ExportFormats].
	ExportFormat = export.Format
	// ExportOptions say what is written and how.
	ExportOptions = export.Options
	// ExportFilter chooses trajectories.
	ExportFilter = export.Filter
	// ExportSteps is a range of steps.
	ExportSteps = export.Steps
	// Exported is what an export wrote.
	Exported = export.Result
)

// ExportFormats lists the formats of [Export].
func ExportFormats() []ExportFormat { return export.Formats() }

// Export writes a run, live or stopped, to a file or a folder. The run is read
// and not changed.
func Export(ctx context.Context, s Source, run subjects.Run, o ExportOptions) (*Exported, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := export.Export(ctx, conn, run, o)
	if errors.Is(err, bus.ErrNotFound) {
		err = fmt.Errorf("no run %s there (`headrace runs` lists what there is): %w", run, err)
	}
	return r, err
}

// Imported says what an import made.
type Imported struct {
	Run          string `json:"run"`
	Origin       string `json:"origin"`
	File         string `json:"file"`
	Trajectories uint64 `json:"trajectories"`
	Where        string `json:"where"` // bus URL or folder
}

// Import makes a run of a file that was exported: on the bus that was named, or
// in a new folder. If it fails, nothing of the run is left.
func Import(ctx context.Context, s Source, path string, run subjects.Run) (*Imported, error) {
	if err := run.Validate(); err != nil {
		return nil, err
	}
	conn, where, done, err := s.place(ctx, run)
	if err != nil {
		return nil, err
	}
	defer func() { done(err == nil) }()
	result := &Imported{Run: string(run), File: path, Where: where}
	err = importFile(ctx, conn, path, run, result)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", path, err)
	}
	return result, nil
}

// place is where a new run goes. done keeps it, or takes what there is of it away.
func (s Source) place(ctx context.Context, run subjects.Run) (conn *bus.Conn, where string, done func(keep bool), err error) {
	options := s.Bus
	options.Name, options.Log = "headrace import "+string(run), s.Log
	if s.Remote {
		if conn, err = bus.Connect(ctx, options); err != nil {
			return nil, "", nil, err
		}
		_, err = bus.LookupRun(ctx, conn, run)
		if err == nil {
			err = fmt.Errorf("%w: the bus has a run %s already; choose another name with --run", ErrRunExists, run)
		}
		if !errors.Is(err, bus.ErrNotFound) {
			closeQuietly(conn)
			return nil, "", nil, err
		}
		return conn, conn.NC().ConnectedUrlRedacted(), func(keep bool) {
			if !keep {
				bus.DeleteRun(context.WithoutCancel(ctx), conn, run) //nolint:errcheck // the import's error is the one to tell
			}
			closeQuietly(conn)
		}, nil
	}
	path := filepath.Join(s.Root, string(run))
	if err := makeRunDir(path); err != nil {
		return nil, "", nil, err
	}
	conn, closeAll, err := openStopped(ctx, runDir(path), options)
	if err != nil {
		os.RemoveAll(path) //nolint:errcheck // the server's error is the one to tell
		return nil, "", nil, err
	}
	return conn, path, func(keep bool) {
		closeAll()
		if !keep {
			os.RemoveAll(path) //nolint:errcheck // the import's error is the one to tell
		}
	}, nil
}

func importFile(ctx context.Context, conn *bus.Conn, path string, run subjects.Run, result *Imported) error {
	in, err := export.Source(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read
	var importer *export.Importer
	err = export.ReadFile(in, export.Into{
		Head: func(h *export.Header, line []byte) error {
			result.Origin = string(h.Run)
			importer = export.NewImporter(ctx, conn, run)
			return importedRecord(ctx, conn, run, h, line)
		},
		Record: func(r *export.Record) error { return importer.Write(r) },
		Event:  func(e *export.Event) error { return importer.WriteEvent(e) },
	})
	if err != nil {
		return err
	}
	now := time.Now()
	if result.Trajectories, err = importer.Finish(now.UnixNano()); err != nil {
		return err
	}
	return bus.EndRun(ctx, conn, run, export.EndImported)
}

// externalRecipe is a recipe whose groups come from outside: nobody issued the
// tasks of an imported run, and nobody proved a lease.
func externalRecipe(text json.RawMessage) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil || all["grouper"] == nil {
		return text, err
	}
	var section map[string]any
	if err := json.Unmarshal(all["grouper"], &section); err != nil {
		return nil, fmt.Errorf("read the recipe's grouper: %w", err)
	}
	section["source"] = grouper.SourceExternal
	if evaluation, ok := section["evaluation"].(map[string]any); ok {
		evaluation["every"] = 0
	}
	if environments, ok := section["environments"].([]any); ok {
		for _, e := range environments {
			if e, ok := e.(map[string]any); ok {
				delete(e, "min_share")
			}
		}
	}
	var err error
	if all["grouper"], err = json.Marshal(section); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// importedRecord makes the streams and the record: the origin's recipe, with
// groups from outside, and the file's first line.
func importedRecord(ctx context.Context, conn *bus.Conn, run subjects.Run, h *export.Header, line []byte) error {
	if err := bus.EnsureStreams(ctx, conn, run, subjects.StreamOptions{}); err != nil {
		return err
	}
	recipe, err := externalRecipe(h.Recipe)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(recipe)
	return bus.CreateRun(ctx, conn, &subjects.RunRecord{V: 1, Run: run, Created: time.Now().UnixNano(), Version: BuildInfo().Version,
		Schema: subjects.SchemaVersion, Tokenizer: h.Tokenizer, Recipe: recipe, Hash: hex.EncodeToString(sum[:]), Origin: line})
}
