package attach

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// wrapper runs the source with globals of its own, and leaves in `out` what its caller returns: a letter, then text. It
// catches everything, except an interpreter without memory.
const wrapper = `
out = None
def run(text):
    space = {'__name__': '__memgauge__', '__builtins__': __builtins__}
    try:
        exec(compile(text, '<memgauge>', 'exec'), space)
        value = space.get('result')
        return b'v' + value.encode('utf-8', 'replace') if isinstance(value, str) else b'n'
    except BaseException as e:
        try:
            line, tb = 0, e.__traceback__
            while tb is not None:
                if tb.tb_frame.f_code.co_filename == '<memgauge>':
                    line = tb.tb_lineno
                tb = tb.tb_next
            line = line or getattr(e, 'lineno', 0) or 0
            return ('e%%s: %%s (line %%d)' %% (type(e).__name__, e, line)).encode('utf-8', 'replace')
        except BaseException:
            return b'eexception without text'
out = run(%s)
del run
`

// wrap makes a program of source.
func wrap(source string) (string, error) {
	literal, err := pythonString(source)
	return fmt.Sprintf(wrapper, literal), err
}

// pythonString writes a str literal; Go's escapes are a subset of Python's.
func pythonString(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("the source is not UTF-8")
	}
	if strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("the source has a zero byte")
	}
	return strconv.QuoteToASCII(s), nil
}

// unwrap splits what the wrapper has left.
func unwrap(out []byte) (value string, err error) {
	if len(out) == 0 {
		return "", fmt.Errorf("%w: it left nothing (out of memory?)", ErrRaised)
	}
	switch text := string(out[1:]); out[0] {
	case 'v':
		return text, nil
	case 'n':
		return "", nil
	default:
		return "", fmt.Errorf("%w: %s", ErrRaised, text)
	}
}
