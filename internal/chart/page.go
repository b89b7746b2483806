package chart

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{margin:2em auto;max-width:1100px;font:15px system-ui,sans-serif;color:#222}` +
	`svg{width:100%;height:auto}</style>
</head><body>{{.SVG}}</body></html>
`))

// WritePage draws the chart as an HTML page that needs nothing else.
func WritePage(w io.Writer, c Chart) error {
	svg, err := c.Inline()
	if err != nil {
		return err
	}
	if err := page.Execute(w, struct {
		Title string
		SVG   template.HTML
	}{c.Title, svg}); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// Inline returns the chart as an element of a page. Its texts are escaped.
func (c Chart) Inline() (template.HTML, error) {
	var b bytes.Buffer
	if err := c.WriteSVG(&b); err != nil {
		return "", err
	}
	_, svg, _ := bytes.Cut(b.Bytes(), []byte("<svg"))
	// The same widths as Liberation's by their design, so that texts end where they were meant to.
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Arial,'Liberation Sans',Helvetica,sans-serif;"))
	// #nosec G203 -- an SVG that we made; its texts are escaped
	return template.HTML("<svg" + string(svg)), nil
}
