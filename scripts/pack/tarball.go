package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
)

// tarball writes PREFIX/bin and PREFIX/lib, for machines where nobody wants pip, with the documents. It is unpacked
// anywhere; the command finds all it needs in itself.
func (r release) tarball() error {
	var c collect
	c.add(r.built("memgauge", "bin/memgauge", program))
	c.add(r.built("libmemgauge_alloc.so", "lib/libmemgauge_alloc.so", program))
	c.add(r.fromSource("cmd/memgauge_alloc/memgauge_alloc.h", "include/memgauge_alloc.h"))
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "README.md", "CHANGELOG.md"} {
		c.add(r.fromSource(name, name))
	}
	if c.err != nil {
		return c.err
	}
	var b bytes.Buffer
	g, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(g)
	for _, f := range sorted(c.files) {
		h := &tar.Header{Name: "memgauge-" + r.Version + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: r.Time, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := g.Close(); err != nil {
		return err
	}
	return os.WriteFile(r.stem()+".tar.gz", b.Bytes(), 0o644)
}
