package web

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
)

// bundle is what scripts/web makes of web/: files compressed with gzip. Without it there is only .gitignore.
//
//go:embed all:bundle
var bundle embed.FS

// file is one of the page's, as it is sent.
type file struct {
	zipped []byte
	kind   string // its MIME type
	tag    string // that a browser compares
}

const pageFile = "index.html"

func bundled() (map[string]file, error) {
	entries, err := bundle.ReadDir("bundle")
	if err != nil {
		return nil, err
	}
	files := map[string]file{}
	for _, e := range entries {
		name, zipped := strings.CutSuffix(e.Name(), ".gz")
		if !zipped {
			continue
		}
		text, err := bundle.ReadFile("bundle/" + e.Name())
		if err != nil {
			return nil, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(text)
		files[name] = file{text, mime.TypeByExtension(path.Ext(name)), `"` + hex.EncodeToString(sum.Sum(nil)) + `"`}
	}
	return files, nil
}

// Bundled says whether the program carries the page.
func Bundled() bool {
	files, err := bundled()
	return err == nil && len(files) > 0
}

// missing is the page of a program that was built without one.
const missing = `<!doctype html><html lang="en"><meta charset="utf-8"><title>memgauge</title>
<h1>This memgauge carries no page</h1>
<p>It was built by <code>go build</code> alone. In the checkout, <code>make build</code> makes the page and the program:
it fetches the page's libraries from the npm registry, pinned by checksum, and needs no Node.</p>
`

// nonceMark in the page stands for the nonce of the answer.
const nonceMark = "NONCE"

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	f, ok := s.files[pageFile]
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, missing)
		return
	}
	text, err := f.plain()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", policy(nonce))
	_, _ = w.Write(bytes.ReplaceAll(text, []byte(nonceMark), []byte(nonce)))
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	f, ok := s.files[name]
	if !ok || name == pageFile {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache") // ask whether it has changed; a new memgauge may serve the same port
	if strings.HasPrefix(name, "part-") {
		h.Set("Cache-Control", "private, max-age=31536000, immutable") // the name has its checksum
	}
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(f.zipped)
		return
	}
	text, err := f.plain()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

func (f file) plain() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(f.zipped))
	if err != nil {
		return nil, fmt.Errorf("the embedded page: %w", err)
	}
	return io.ReadAll(z)
}
