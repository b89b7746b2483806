package snapshot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

func (a *commands) snapshotDiffCommand(shared *snapshotOptions) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "What one memory snapshot has more and less of than another",
		Long: "Compares two snapshots (two runs, two ranks, before and after a change) at their peaks and at their ends: by line of your\n" +
			"code and by use, the largest change first. Lines are known again when their numbers have moved: within a function,\n" +
			"by the text of the source where it is here and as old as the snapshot, else in order.",
		Example: "  memgauge snapshot diff before.pickle after.pickle\n" +
			"  memgauge snapshot diff rank0.pickle rank7.pickle --json",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotDiff(cmd.Context(), shared, asJSON, args[0], args[1])
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

// diffDoc is the document of --json.
type diffDoc struct {
	SchemaVersion int            `json:"schema_version"`
	Files         [2]string      `json:"files"`
	Devices       []anatomy.Diff `json:"devices"`
}

func (a *commands) snapshotDiff(ctx context.Context, o *snapshotOptions, asJSON bool, pathA, pathB string) error {
	if pathA == "-" && pathB == "-" {
		return app.Usage(fmt.Errorf("snapshot diff: only one of the two can be standard input"))
	}
	told := diffDoc{SchemaVersion: 1, Files: [2]string{pathA, pathB}}
	var read [2]*anatomy.History
	for i, path := range told.Files {
		h, _, err := a.readHistory(ctx, o, path)
		if err != nil {
			return fmt.Errorf("snapshot diff: %s: %w", path, err)
		}
		defer h.Close()
		read[i] = h
	}
	told.Devices = anatomy.Compare(read[0], read[1], sourcesOf(read[0]), sourcesOf(read[1]))
	if len(told.Devices) == 0 {
		return fmt.Errorf("snapshot diff: %s and %s have no device in common", pathA, pathB)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	out := &sink.Spool{To: a.Answer(asJSON)}
	defer out.Discard()
	var err error
	if asJSON {
		err = doc.WriteJSON(out, told)
	} else {
		_, err = io.WriteString(out, told.Text())
	}
	if err != nil {
		return err
	}
	return out.Commit()
}

func (d *diffDoc) Text() string {
	var b strings.Builder
	plain.Fprintf(&b, "A %s\nB %s\n", d.Files[0], d.Files[1])
	for _, one := range d.Devices {
		plain.Fprintf(&b, "\ndevice %d", one.DeviceA)
		if one.DeviceB != one.DeviceA {
			plain.Fprintf(&b, " and device %d", one.DeviceB)
		}
		b.WriteString("\n")
		deltasText(&b, "peak", one.Peak)
		deltasText(&b, "at the end", one.End)
	}
	return b.String()
}

func deltasText(b *strings.Builder, moment string, d anatomy.Deltas) {
	plain.Fprintf(b, "  %-11s %s in A, %s in B: %s\n", moment, doc.Size(d.Bytes[0]), doc.Size(d.Bytes[1]),
		change(d.Bytes[1]-d.Bytes[0]))
	deltaLines(b, "for", d.Categories)
	deltaLines(b, "by line", d.Sites)
	if d.SitesLeft > 0 {
		plain.Fprintf(b, "  %21s and %s more\n", "", doc.Plural(d.SitesLeft, "line"))
	}
}

func deltaLines(b *strings.Builder, title string, list []anatomy.Delta) {
	for _, x := range list {
		plain.Fprintf(b, "  %-9s %11s  %s: %s in %s before, %s in %s", title, change(x.Changed), x.Name,
			doc.Size(x.Bytes[0]),
			doc.Plural(x.Blocks[0], "block"), doc.Size(x.Bytes[1]), units.Count(int64(x.Blocks[1])))
		if x.Moved != "" {
			plain.Fprintf(b, " (in A %s)", x.Moved)
		}
		b.WriteString("\n")
		title = ""
	}
}

// change is a size with its sign.
func change(bytes int64) string {
	if bytes > 0 {
		return "+" + doc.Size(bytes)
	}
	return doc.SignedSize(bytes)
}

// maxSource is the size in bytes of the largest Python file that is read. The largest that people write have half a
// megabyte.
const maxSource = 4 << 20

// sourcesOf reads source files that exist on this machine and have not changed since the history was recorded.
func sourcesOf(h *anatomy.History) anatomy.Source {
	last, files := time.UnixMicro(h.LastMoment()), map[string][]string{}
	return func(file string, line int) string {
		lines, known := files[file]
		if !known {
			lines = sourceLines(file, last)
			files[file] = lines
		}
		if line < 1 || line > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[line-1])
	}
}

// sourceLines returns a file's lines; nil if it doesn't exist, is newer, or can't be a source file. A snapshot may name
// any path, so only regular files are opened.
func sourceLines(path string, before time.Time) []string {
	info, err := os.Stat(path)
	if err != nil || !filepath.IsAbs(path) || filepath.Ext(path) != ".py" || !info.Mode().IsRegular() ||
		info.Size() > maxSource || info.ModTime().After(before) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}
