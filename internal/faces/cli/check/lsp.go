package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/evidence"
	"github.com/memgauge/memgauge/internal/judge/check"
)

// languageServer answers an editor over standard input and output: what is wrong in the texts that it has open, why,
// and how it can be mended. It reads what the editor sends and nothing else, but for settings.
type languageServer struct {
	o    options
	seen *evidence.Session // of the session that was named; nil: none
	mu   sync.Mutex
	open map[string]*openText // by URI
	down bool                 // shutdown was asked for
}

// openText is a text as the editor has it.
type openText struct {
	path     string
	data     []byte
	version  int
	findings []check.Finding
}

// Bounds of what an editor may have us keep.
const (
	maxOpen = 1000     // texts: editors have tens
	maxText = 64 << 20 // bytes of one, like standard input
)

type (
	position struct {
		Line      int `json:"line"`
		Character int `json:"character"` // in UTF-16 units
	}
	textRange struct {
		Start position `json:"start"`
		End   position `json:"end"`
	}
	textEdit struct {
		Range   textRange `json:"range"`
		NewText string    `json:"newText"`
	}
	diagnostic struct {
		Range    textRange `json:"range"`
		Severity int       `json:"severity"`
		Code     string    `json:"code"`
		Source   string    `json:"source"`
		Message  string    `json:"message"`
	}
	codeAction struct {
		Title       string       `json:"title"`
		Kind        string       `json:"kind"`
		Diagnostics []diagnostic `json:"diagnostics"`
		Preferred   bool         `json:"isPreferred"`
		Edit        struct {
			Changes map[string][]textEdit `json:"changes"`
		} `json:"edit"`
	}
	document struct {
		URI     string  `json:"uri"`
		Version int     `json:"version"`
		Text    *string `json:"text"`
	}
	// params has what any of the messages that are understood may say.
	params struct {
		Document document `json:"textDocument"`
		Changes  []struct {
			Text string `json:"text"`
		} `json:"contentChanges"`
		Position position  `json:"position"`
		Range    textRange `json:"range"`
	}
)

// lsp serves one editor until it says exit, or is gone.
func (a *commands) lsp(ctx context.Context, o options) error {
	s := &languageServer{o: o, open: map[string]*openText{}}
	if a.Named() {
		session, err := a.Connect(ctx)
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		seen, err := evidence.Gather(ctx, session)
		session.Close()
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		s.seen = seen
	}
	in := a.OpenStdin(ctx)
	defer in.Close()
	stream := jsonrpc2.NewBufferedStream(twoWay{in, a.Answer(true)}, jsonrpc2.VSCodeObjectCodec{})
	conn := jsonrpc2.NewConn(ctx, stream, jsonrpc2.HandlerWithError(s.handle))
	select {
	case <-conn.DisconnectNotify():
	case <-ctx.Done():
	}
	if s.down {
		return nil
	}
	return app.Exit(1, errors.New("check: the editor left without saying shutdown"))
}

// twoWay is standard input and output as one.
type twoWay struct {
	io.ReadCloser
	io.Writer
}

// handle answers a message. Those that nobody knows are told so, as the protocol wants it.
func (s *languageServer) handle(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	var p params
	if r.Params != nil && r.Method != "initialize" {
		if err := json.Unmarshal(*r.Params, &p); err != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
		}
	}
	switch r.Method {
	case "initialize":
		return map[string]any{
			"capabilities": map[string]any{
				"textDocumentSync":   map[string]any{"openClose": true, "change": 1, "save": true},
				"hoverProvider":      true,
				"codeActionProvider": map[string]any{"codeActionKinds": []string{"quickfix", "source.fixAll"}},
			},
			"serverInfo": map[string]any{"name": "memgauge", "version": app.Version},
		}, nil
	case "shutdown":
		s.down = true
		return nil, nil
	case "exit":
		return nil, c.Close()
	case "textDocument/didOpen":
		if p.Document.Text != nil {
			s.put(ctx, c, p.Document.URI, *p.Document.Text, p.Document.Version)
		}
	case "textDocument/didChange":
		if n := len(p.Changes); n > 0 {
			s.put(ctx, c, p.Document.URI, p.Changes[n-1].Text, p.Document.Version)
		}
	case "textDocument/didClose":
		s.mu.Lock()
		delete(s.open, p.Document.URI)
		s.mu.Unlock()
		return nil, s.publish(ctx, c, p.Document.URI, &openText{})
	case "textDocument/hover":
		return s.hover(p), nil
	case "textDocument/codeAction":
		return s.actions(p), nil
	case "initialized", "textDocument/didSave", "$/cancelRequest", "$/setTrace", "workspace/didChangeConfiguration":
	default:
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "memgauge does not know " + r.Method}
	}
	return nil, nil
}

// pathOf is the file that a URI names; "" none.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return filepath.FromSlash(u.Path)
}

// put takes a text as it is now, and tells what is found in it. Notebooks come as cells of their own, which are no
// files.
func (s *languageServer) put(ctx context.Context, c *jsonrpc2.Conn, uri, text string, version int) {
	s.mu.Lock()
	_, known := s.open[uri]
	full := !known && len(s.open) >= maxOpen
	s.mu.Unlock()
	path := pathOf(uri)
	if path == "" || full || len(text) > maxText {
		return
	}
	o := &openText{path: path, data: []byte(text), version: version}
	config, err := check.ReadConfig(filepath.Dir(path))
	if err != nil {
		_ = c.Notify(ctx, "window/showMessage", map[string]any{"type": 2, "message": plain.Line(err.Error())})
	} else if !config.Excludes(path) {
		o.findings, _ = check.File(path, o.data, s.rules(config, path))
	}
	s.mu.Lock()
	s.open[uri] = o
	s.mu.Unlock()
	_ = s.publish(ctx, c, uri, o)
}

func (s *languageServer) rules(config check.Config, path string) check.Selection {
	return s.o.rulesFor(config, path)
}

func (s *languageServer) publish(ctx context.Context, c *jsonrpc2.Conn, uri string, o *openText) error {
	list := []diagnostic{}
	for _, f := range o.findings {
		list = append(list, o.diagnose(f))
	}
	return c.Notify(ctx, "textDocument/publishDiagnostics",
		map[string]any{"uri": uri, "version": o.version, "diagnostics": list})
}

var lspSeverity = map[check.Severity]int{check.Error: 1, check.Warning: 2, check.Note: 3}

func (o *openText) diagnose(f check.Finding) diagnostic {
	return diagnostic{Range: textRange{o.at(f.Line, f.Col), o.at(f.EndLine, f.EndCol)},
		Severity: lspSeverity[f.Rule.Severity], Code: f.Rule.ID, Source: "memgauge",
		Message: f.Message + "\n" + f.Hint}
}

// at is a place by its line and its column in characters, from 1, as the protocol counts: UTF-16 units, from 0.
func (o *openText) at(line, col int) position {
	text := o.line(line)
	units, chars := 0, 0
	for _, r := range text {
		if chars++; chars >= col {
			break
		}
		units += len(utf16.Encode([]rune{r}))
	}
	return position{line - 1, units}
}

// line is a line's text by its number, from 1.
func (o *openText) line(number int) string {
	rest := string(o.data)
	for ; number > 1; number-- {
		_, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return ""
		}
		rest = after
	}
	text, _, _ := strings.Cut(rest, "\n")
	return text + " "
}

// byteAt is a byte's place as the protocol counts.
func (o *openText) byteAt(at int) position {
	before := string(o.data[:min(at, len(o.data))])
	line := strings.Count(before, "\n")
	return position{line, len(utf16.Encode([]rune(before[strings.LastIndexByte(before, '\n')+1:])))}
}

func before(a, b position) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Character, b.Character))
}

// meets reports whether two ranges have a place in common.
func (r textRange) meets(other textRange) bool {
	return before(r.Start, other.End) <= 0 && before(other.Start, r.End) <= 0
}

// under are a text and its findings that a range meets.
func (s *languageServer) under(uri string, r textRange) (o *openText, list []check.Finding) {
	s.mu.Lock()
	o = s.open[uri]
	s.mu.Unlock()
	if o == nil {
		return nil, nil
	}
	for _, f := range o.findings {
		if o.diagnose(f).Range.meets(r) {
			list = append(list, f)
		}
	}
	return o, list
}

// hover says why a rule finds something here, and what the session has measured.
func (s *languageServer) hover(p params) any {
	o, list := s.under(p.Document.URI, textRange{p.Position, p.Position})
	if len(list) == 0 {
		return nil
	}
	var out strings.Builder
	for _, f := range list {
		fmt.Fprintf(&out, "**%s %s** (%s): %s\n\n%s\n\n", f.Rule.ID, f.Rule.Name, f.Rule.Severity,
			plain.Line(f.Message), plain.Line(f.Hint))
		if s.seen != nil {
			if m, ok := s.seen.For(f); ok {
				fmt.Fprintf(&out, "measured: %s\n\n", m)
			}
		}
	}
	return map[string]any{"contents": map[string]any{"kind": "markdown", "value": out.String()},
		"range": o.diagnose(list[0]).Range}
}

// actions are the fixes of what a range meets, and one that makes all sure ones of the text.
func (s *languageServer) actions(p params) []codeAction {
	list := []codeAction{}
	o, found := s.under(p.Document.URI, p.Range)
	if o == nil {
		return list
	}
	add := func(title, kind string, of ...check.Finding) {
		a := codeAction{Title: title, Kind: kind, Preferred: kind == "quickfix" && !of[0].Unsafe}
		a.Edit.Changes = map[string][]textEdit{}
		for _, f := range of {
			a.Diagnostics = append(a.Diagnostics, o.diagnose(f))
		}
		data, n := check.Apply(o.data, wanted(of))
		if n == 0 {
			return // the text would not parse
		}
		a.Edit.Changes[p.Document.URI] = []textEdit{o.change(data)}
		list = append(list, a)
	}
	for _, f := range found {
		if f.Fixable() {
			add(f.Rule.ID+": "+f.Hint, "quickfix", f)
		} else if f.Suggested() {
			add(f.Rule.ID+" (look at it): "+f.Hint, "quickfix", f)
		}
	}
	if all := slices.DeleteFunc(slices.Clone(o.findings), func(f check.Finding) bool {
		return !f.Fixable()
	}); len(all) > 0 {
		add("mend all that memgauge can mend surely", "source.fixAll", all...)
	}
	return list
}

// wanted are findings whose fixes somebody has chosen, also where they are suggestions.
func wanted(list []check.Finding) []check.Finding {
	list = slices.Clone(list)
	for i := range list {
		list[i].Unsafe = false
	}
	return list
}

// change is the one edit that makes a text another.
func (o *openText) change(after []byte) textEdit {
	start := 0
	for start < min(len(o.data), len(after)) && o.data[start] == after[start] {
		start++
	}
	for start > 0 && o.data[start-1] != '\n' { // whole lines: never within a character
		start--
	}
	end := 0
	for end < min(len(o.data), len(after))-start && o.data[len(o.data)-1-end] == after[len(after)-1-end] {
		end++
	}
	for end > 0 && o.data[len(o.data)-end-1] != '\n' {
		end--
	}
	return textEdit{textRange{o.byteAt(start), o.byteAt(len(o.data) - end)}, string(after[start : len(after)-end])}
}
