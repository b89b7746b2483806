package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/page"
)

// This file makes a page of one session that needs no server: the same views, with the answers inside.

// held are the answers that a report carries, by the question that the page would ask a server.
type held struct {
	Version string                `json:"version"`
	Written int64                 `json:"written"` // µs since the epoch
	Answers map[string]any        `json:"answers"`
	Series  map[string][]*columns `json:"series"`   // coarse first; by kind:pid:device:path
	LeftOut int                   `json:"left_out"` // memories of the session that have no series here
	Where   []picked              `json:"where"`    // at moments, in order of time
	Flame   *drawnFlame           `json:"flame"`    // null where the session keeps no snapshot
}

// ranOut is how memory ran out, and who held what around that moment.
type ranOut struct {
	What   *page.PostMortem `json:"what"`
	Minute []page.Line      `json:"minute"`
}

// WriteReport writes the page: d is what the session is, s answers for the views.
func WriteReport(ctx context.Context, w io.Writer, s api.Session, d *page.Document) error {
	h, err := hold(ctx, s, d)
	if err != nil {
		return err
	}
	c := cover{Name: d.Session.Name, Command: strings.Join(d.Session.Command, " "), Lines: []string{d.Session.State}}
	for _, line := range d.Headlines {
		c.Lines = append(c.Lines, line.Text)
	}
	return writePage(w, c, "report.js", h)
}

func plainOf(files map[string]file, name string) ([]byte, error) {
	f, ok := files[name]
	if !ok {
		return nil, errors.New("this memgauge carries no page: in the checkout, make build makes it")
	}
	return f.plain()
}

// packed is compressed and has letters and digits only: nothing that a session says can end the element it stands in.
func packed(held any) (string, error) {
	var b bytes.Buffer
	to64 := base64.NewEncoder(base64.StdEncoding, &b)
	z, err := gzip.NewWriterLevel(to64, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	for _, step := range []func() error{func() error { return json.NewEncoder(z).Encode(held) }, z.Close, to64.Close} {
		if err := step(); err != nil {
			return "", fmt.Errorf("write page: %w", err)
		}
	}
	return b.String(), nil
}

// cover is what the page shows where scripts don't run.
type cover struct {
	Name, Command string
	Lines         []string
}

// writeHead writes the cover. Its texts are those of a session or of a file, and are escaped.
func writeHead(w io.Writer, c cover, policy string) error {
	var lines strings.Builder
	if c.Command != "" {
		fmt.Fprintf(&lines, "<p><code>%s</code></p>\n", html.EscapeString(c.Command))
	}
	for _, l := range c.Lines {
		fmt.Fprintf(&lines, "<p>%s</p>\n", html.EscapeString(l))
	}
	_, err := fmt.Fprintf(w, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%s · memgauge</title>
</head>
<body>
<div id="app"><h1>%[2]s</h1>
%[3]s<noscript><p>The rest of this page needs JavaScript. It asks nobody anything: all of it is in this file.</p>
</noscript></div>
`, html.EscapeString(policy), html.EscapeString(c.Name), lines.String())
	return err
}

// writePage writes a page of the bundle's script of a name, with what the page is to show inside.
func writePage(w io.Writer, c cover, scriptName string, held any) error {
	files, err := bundled()
	if err != nil {
		return err
	}
	script, err := plainOf(files, scriptName)
	if err != nil {
		return err
	}
	style, err := plainOf(files, "style.css")
	if err != nil {
		return err
	}
	data, err := packed(held)
	if err != nil {
		return err
	}
	for _, text := range [][]byte{script, style} {
		if bytes.Contains(bytes.ToLower(text), []byte("</s")) {
			return errors.New("write page: its own script or style would end its element")
		}
	}
	err = writeHead(w, c, "default-src 'none'; script-src "+hashOf(script)+"; style-src "+hashOf(style)+
		"; img-src data:; base-uri 'none'; form-action 'none'")
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	for _, piece := range []string{`<style>`, string(style), "</style>\n", `<script type="text/plain" id="data">`, data,
		"</script>\n<script>", string(script), "</script>\n</body>\n</html>\n"} {
		if _, err := io.WriteString(w, piece); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

// hashOf is how a policy allows one text and no other.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
