package chart

import (
	"fmt"
	"html"
	"io"
)

// WritePage draws the chart as an HTML page that needs nothing else.
func WritePage(w io.Writer, c Chart) error {
	_, err := fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title>
<style>body{margin:2em auto;max-width:1100px;font:15px system-ui,sans-serif;color:#222}
svg{width:100%%;height:auto}</style>
</head><body>%s</body></html>
`, html.EscapeString(c.Title), c.svg())
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
