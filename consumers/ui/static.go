package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

func trimSlashes(s string) string { return strings.Trim(s, "/") }

// static is the page's files, ready to be sent.
type static struct {
	base  string
	files map[string]*file
}

type file struct {
	kind, tag    string
	data, packed []byte // packed: gzip, nil where that gains nothing
}

// newStatic reads the files; index.html is told the base path.
func newStatic(files fs.FS, base string) static {
	s := static{base: base, files: map[string]*file{}}
	_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be read is not there
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if name == "index.html" {
			data = bytes.Replace(data, []byte(`<base href="/">`), []byte(`<base href="`+html.EscapeString(base)+`">`), 1)
		}
		s.files[name] = newFile(name, data)
		return nil
	})
	return s
}

var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml",
	".png": "image/png", ".woff2": "font/woff2", ".json": "application/json", ".LICENSE": "text/plain; charset=utf-8"}

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{data: data, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, kind: kinds[path.Ext(name)]}
	if f.kind == "" {
		if f.kind = mime.TypeByExtension(path.Ext(name)); f.kind == "" {
			f.kind = "text/plain; charset=utf-8"
		}
	}
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is one
	if _, err := z.Write(data); err == nil && z.Close() == nil && buf.Len() < len(data)*9/10 {
		f.packed = buf.Bytes()
	}
	return f
}

// serve sends a file; for what is none, the page, which knows its own addresses.
func (s *static) serve(w http.ResponseWriter, r *http.Request) {
	name := trimSlashes(strings.TrimPrefix(r.URL.Path, s.base))
	f := s.files[name]
	if f == nil {
		if ext := path.Ext(name); kinds[ext] != "" && ext != ".html" && !strings.HasPrefix(name, "r/") {
			complain(w, http.StatusNotFound, "there is no file "+name)
			return
		}
		f = s.files["index.html"]
	}
	if f == nil {
		complain(w, http.StatusNotFound, "this build has no page")
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache") // kept, and asked for again by its tag
	h.Set("Vary", "Accept-Encoding")
	if match := r.Header.Get("If-None-Match"); match != "" && strings.Contains(match, strings.Trim(f.tag, `"`)) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	data := f.data
	if f.packed != nil && takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		data = f.packed
	}
	if r.Method == http.MethodHead {
		return
	}
	w.Write(data) //nolint:errcheck // the browser is gone
}
