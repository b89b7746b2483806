package snapshot

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/jaxprofile"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// This file shows JAX's own profile of device memory.

// shownSites is how many lines of a device are printed; --json has all.
const shownSites = 12

// isJAX reports whether a file is such a profile; standard input never is, since it can be read only once.
func isJAX(path string) bool {
	if path == "-" {
		return false
	}
	f, err := rootdir.OpenNamed(path)
	if err != nil {
		return false // reading the file later will report the error
	}
	defer f.Close()
	return jaxprofile.Is(f)
}

type jaxDoc struct {
	SchemaVersion int    `json:"schema_version"`
	File          string `json:"file"`
	Bytes         int64  `json:"file_bytes"`
	Format        string `json:"format"`
	*jaxprofile.Profile
}

func (a *commands) jaxSnapshot(ctx context.Context, o *snapshotOptions, path string) error {
	f, size, err := a.OpenInput(ctx, path)
	if err != nil {
		return fmt.Errorf("snapshot: %s: %w", path, openError(err))
	}
	defer f.Close()
	p, err := jaxprofile.Read(f, int64(o.memory))
	if err != nil {
		return fmt.Errorf("snapshot: %s: %w", path, err)
	}
	told := jaxDoc{SchemaVersion: 1, File: path, Bytes: size, Format: "JAX device memory profile", Profile: p}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	if o.json {
		err = doc.WriteJSON(out, told)
	} else {
		_, err = io.WriteString(out, told.text())
	}
	if err == nil {
		err = out.Commit()
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

func (d *jaxDoc) text() string {
	var b strings.Builder
	plain.Fprintf(&b, "%s: %s, %s, %s, %s\n", d.File, d.Format, doc.Size(d.Bytes),
		doc.Plural(len(d.Devices), "device"), doc.Plural(int(d.Executables), "compiled program"))
	for _, device := range d.Devices {
		plain.Fprintf(&b, "\n%s: %s in %s, made by\n", device.Name, doc.Size(device.Bytes),
			doc.Plural(int(device.Buffers), "live buffer"))
		for i, site := range device.Sites {
			if i == shownSites {
				plain.Fprintf(&b, "  …and %s more\n", doc.Plural(len(device.Sites)-i, "line"))
				break
			}
			siteText(&b, site, device.Bytes)
		}
	}
	return b.String()
}

func siteText(b *strings.Builder, s jaxprofile.Site, all int64) {
	share := 0.0
	if all > 0 {
		share = 100 * float64(s.Bytes) / float64(all)
	}
	plain.Fprintf(b, "  %10s  %3.0f %%  %s:%d %s, %s\n", doc.Size(s.Bytes), share, s.File, s.Line, s.Function,
		doc.Plural(int(s.Buffers), "buffer"))
	for _, caller := range s.Callers {
		plain.Fprintf(b, "  %10s         from %s:%d %s\n", "", caller.File, caller.Line, caller.Function)
	}
}
