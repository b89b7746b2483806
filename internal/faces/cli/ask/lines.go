package ask

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"

	typed "github.com/memgauge/memgauge/internal/base/prompt"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/door/ask"
)

// reader reads lines from a terminal, with editing and history, or from any other input.
func (p *talk) reader(ctx context.Context) lineReader {
	in, ok := p.a.Stdin.(*os.File)
	out, shown := term.FileOf(p.a.Stdout)
	if !ok || !shown || !term.IsTerminal(in) || !term.IsTerminal(out) {
		return plainLines{bufio.NewReader(p.a.Stdin)}
	}
	t := &terminal{in: in, out: out, history: p.openHistory()}
	t.edit = xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys{ctx, in}, out}, "")
	t.edit.History = t.history
	t.edit.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != ctrlR {
			t.searching = false
		}
		switch {
		case key == cancelKey:
			t.canceled = true
			return "^C", 2, true
		case key == ctrlR:
			return t.search(line)
		case key == '\t' && pos == len(line):
			line = p.complete(ctx, line)
			return line, len(line), true
		}
		return "", 0, false
	}
	p.tty = t
	return t
}

// openHistory reads the lines that were typed before. What can't be kept is said once, and kept in memory.
func (p *talk) openHistory() *typed.History {
	home, err := ask.Home()
	if err == nil {
		var made *rootdir.Dir
		if made, err = rootdir.Make(home); err == nil {
			err = made.Close()
		}
	}
	if err != nil {
		fmt.Fprintf(p.a.Stderr, "memgauge: the history does not last: %v\n", err)
		return &typed.History{}
	}
	h, err := typed.OpenHistory(filepath.Join(home, "history"))
	if err != nil {
		fmt.Fprintf(p.a.Stderr, "memgauge: %v\n", err)
	}
	return h
}

// plainLines are read from a pipe or a file.
type plainLines struct{ in *bufio.Reader }

func (l plainLines) line(string) (string, error) {
	text, err := l.in.ReadString('\n')
	if errors.Is(err, io.EOF) && text != "" { // a last line without newline
		err = nil
	}
	return strings.TrimRight(text, "\r\n"), err
}

// terminal is in raw mode while a line is edited, and in its former mode while a command runs, so that Ctrl-C
// interrupts the command.
type terminal struct {
	in, out    *os.File
	edit       *xterm.Terminal
	history    *typed.History
	complained bool // that the history can't be written
	canceled   bool // Ctrl-C ended the line

	searching bool   // Ctrl-R was the last key
	part      string // searched for
	older     int    // age of what was found
}

// search recalls the newest line that contains what is typed; pressed again, an older one.
func (t *terminal) search(line string) (string, int, bool) {
	if !t.searching {
		t.searching, t.part, t.older = true, line, -1
	}
	entry, at, ok := t.history.Search(t.part, t.older+1)
	if !ok {
		return line, len(line), true
	}
	t.older = at
	return entry, len(entry), true
}

// size of the terminal: 80×24 where it does not tell, and nothing can be shown in full screen.
func (t *terminal) size() (wide, high int, known bool) {
	if wide, high, err := xterm.GetSize(int(t.out.Fd())); err == nil && wide > 0 && high > 0 {
		return wide, high, true
	}
	return 80, 24, false
}

// errInterrupted is Ctrl-C: the question is given up, the prompt goes on.
var errInterrupted = errors.New("interrupted")

func (t *terminal) line(prompt string) (string, error) {
	fd := int(t.in.Fd())
	before, err := xterm.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer xterm.Restore(fd, before)
	if width, height, err := xterm.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		_ = t.edit.SetSize(width, height)
	}
	t.edit.SetPrompt(prompt)
	text, err := t.edit.ReadLine()
	if t.canceled {
		t.canceled = false
		return "", errInterrupted
	}
	return text, err
}

// keys reads the terminal until the context ends. Package term takes Ctrl-C for the end of input; here it clears the
// line instead.
type keys struct {
	ctx context.Context
	in  *os.File
}

const (
	ctrlC     = 3
	ctrlR     = 18
	cancelKey = 7   // Ctrl-G, which the editor does not know: stands for Ctrl-C in what it reads
	lookMs    = 200 // how soon an end of the context is seen

	// Ctrl-E and Ctrl-U: to the end, then delete up to the start; then the key that says why, and Enter.
	clearedLine = "\x05\x15\x07\r"
)

func (k keys) Read(b []byte) (int, error) {
	ready := []unix.PollFd{{Fd: int32(k.in.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ready, lookMs)
		if k.ctx.Err() != nil {
			return 0, k.ctx.Err()
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		if n > 0 {
			break
		}
	}
	one := make([]byte, max(1, len(b)/len(clearedLine)))
	n, err := k.in.Read(one)
	return copy(b, strings.ReplaceAll(string(one[:n]), string(rune(ctrlC)), clearedLine)), err
}
