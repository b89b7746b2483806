package ask

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"

	"github.com/memgauge/memgauge/internal/term"
)

// reader reads lines from a terminal, with editing and history, or from any other input.
func (p *prompt) reader(ctx context.Context) lineReader {
	in, ok := p.a.Stdin.(*os.File)
	out, shown := term.FileOf(p.a.Stdout)
	if !ok || !shown || !term.IsTerminal(in) || !term.IsTerminal(out) {
		return plainLines{bufio.NewReader(p.a.Stdin)}
	}
	t := &terminal{in: in, out: out}
	t.edit = xterm.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys{ctx, in}, out}, "")
	t.edit.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' || pos != len(line) {
			return "", 0, false
		}
		line = p.complete(ctx, line)
		return line, len(line), true
	}
	return t
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
	in, out *os.File
	edit    *xterm.Terminal
}

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
	return t.edit.ReadLine()
}

// keys reads the terminal until the context ends. Package term takes Ctrl-C for the end of input; here it clears the
// line instead.
type keys struct {
	ctx context.Context
	in  *os.File
}

const (
	ctrlC       = 3
	lookMs      = 200        // how soon an end of the context is seen
	clearedLine = "\x05\x15" // Ctrl-E, Ctrl-U: to the end, then delete up to the start
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
