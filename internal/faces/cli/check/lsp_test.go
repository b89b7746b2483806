package check_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/test/env"
)

// editor is the other side of the protocol.
type editor struct {
	t    *testing.T
	conn *jsonrpc2.Conn
	said chan map[string]any // what the server has published
	end  chan int
}

func newEditor(t *testing.T) *editor {
	t.Helper()
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	toServer, fromEditor := io.Pipe()
	toEditor, fromServer := io.Pipe()
	e := &editor{t: t, said: make(chan map[string]any, 10), end: make(chan int, 1)}
	go func() {
		code := cli.Main([]string{"check", "--lsp"}, toServer, fromServer, io.Discard)
		fromServer.Close()
		e.end <- code
	}()
	stream := jsonrpc2.NewBufferedStream(pipes{toEditor, fromEditor}, jsonrpc2.VSCodeObjectCodec{})
	e.conn = jsonrpc2.NewConn(context.Background(), stream, jsonrpc2.HandlerWithError(
		func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
			var p map[string]any
			if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil {
				e.said <- p
			}
			return nil, nil
		}))
	t.Cleanup(func() { e.conn.Close() })
	return e
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

func (e *editor) ask(method string, params, into any) {
	e.t.Helper()
	if err := e.conn.Call(context.Background(), method, params, into); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) tell(method string, params any) {
	e.t.Helper()
	if err := e.conn.Notify(context.Background(), method, params); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

type object = map[string]any

// TestLanguageServer: a text that is opened has its findings at once, by the editor's columns; hover says why; a code
// action mends; what was mended has none; and the server ends when it is told to.
func TestLanguageServer(t *testing.T) {
	e := newEditor(t)
	path := filepath.Join(t.TempDir(), "ein zug.py") // never written
	uri := "file://" + strings.ReplaceAll(path, " ", "%20")
	text := strings.Replace(training, "losses.append(loss)", `"😀"; losses.append(loss)`, 1)
	if text == training {
		t.Fatalf("the text has changed: %s", training)
	}
	var begun object
	e.ask("initialize", object{"processId": nil, "capabilities": object{}}, &begun)
	e.tell("initialized", object{})
	e.tell("textDocument/didOpen", object{"textDocument": object{"uri": uri, "languageId": "python", "version": 1,
		"text": text}})
	list := (<-e.said)["diagnostics"].([]any)
	if len(list) != 1 || list[0].(object)["code"] != "MG103" {
		t.Fatalf("published %v", list)
	}
	at := list[0].(object)["range"].(object)["start"].(object)
	line := strings.Split(text, "\n")[int(at["line"].(float64))]
	if want := float64(strings.Index(line, "losses.append") - len("😀") + 2); at["character"] != want {
		t.Errorf("it begins at %v of %q, want %v", at["character"], line, want)
	}
	var hover object
	e.ask("textDocument/hover", object{"textDocument": object{"uri": uri}, "position": at}, &hover)
	if said, _ := json.Marshal(hover); !bytes.Contains(said, []byte("graph-kept-in-container")) {
		t.Errorf("hover: %s", said)
	}
	var actions []struct {
		Kind string
		Edit struct {
			Changes map[string][]struct {
				NewText string
				Range   struct{ Start, End struct{ Line, Character int } }
			}
		}
	}
	e.ask("textDocument/codeAction", object{"textDocument": object{"uri": uri}, "context": object{"diagnostics": list},
		"range": list[0].(object)["range"]}, &actions)
	if len(actions) != 2 || actions[0].Kind != "quickfix" || actions[1].Kind != "source.fixAll" {
		t.Fatalf("actions %+v", actions)
	}
	lines := strings.SplitAfter(text, "\n")
	for _, c := range actions[0].Edit.Changes[uri] {
		text = strings.Join(lines[:c.Range.Start.Line], "") + c.NewText + strings.Join(lines[c.Range.End.Line:], "")
	}
	e.tell("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": 2},
		"contentChanges": []object{{"text": text}}})
	if list := (<-e.said)["diagnostics"].([]any); len(list) != 0 || !strings.Contains(text, "append(loss.detach())") {
		t.Errorf("mended, it has %v:\n%s", list, text)
	}
	e.ask("shutdown", nil, nil)
	e.tell("exit", nil)
	if code := <-e.end; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEditorIsGone: an editor that dies without a word ends the server.
func TestEditorIsGone(t *testing.T) {
	e := newEditor(t)
	e.conn.Close()
	if code := <-e.end; code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

//go:embed testdata/pygls_client.py
var pyglsClient string

// TestRealClient: pygls' client opens a text, hovers, asks for fixes and makes one.
func TestRealClient(t *testing.T) {
	env.Long(t, "a whole client in Python")
	python := env.Readers(t)
	cmd := python.Command(t, "-c", pyglsClient, env.Memgauge(t, t.TempDir()), t.TempDir())
	cmd.Stdin = strings.NewReader(training)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("No module named 'pygls'")) {
		env.Missing(t, "readers", "pygls is not there: scripts/testenv installs it")
	}
	if err != nil || !bytes.Contains(out, []byte("all well")) {
		t.Errorf("%v\n%s", err, out)
	}
}
