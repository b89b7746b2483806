package repair

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// maxValues is how many values are tried: each is a run of the program.
const maxValues = 100

// values runs the command with one value of a setting after another, and tells of the first that leaks.
func (s *search) values(ctx context.Context) (found, error) {
	name, list, _ := strings.Cut(s.o.vary, "=")
	f := found{Among: name}
	values := strings.Split(list, ",")
	if name == "" || slices.Contains(values, "") || len(values) > maxValues {
		return f, app.Usage(fmt.Errorf("bisect: --vary %q: want NAME=a,b,c, and at most %d values", s.o.vary,
			maxValues))
	}
	for _, v := range values {
		command, ok := substitute(s.o.command, name, v)
		if !ok {
			return f, app.Usage(remedy.Add(fmt.Errorf("bisect: nothing in the command is called %s", name),
				"write {"+name+"} where its value stands: -- python train.py --size {"+name+"}"))
		}
		t, err := s.note(ctx, name+"="+v, "", command, nil)
		if err != nil {
			return f, err
		}
		if t.Outcome == bad && f.First == nil {
			first := t.What
			f.First = &first
		}
	}
	return f, nil
}

// substitute puts a value in place of {NAME}; where there is none, in place of what follows --NAME.
func substitute(command []string, name, value string) (out []string, ok bool) {
	mark := "{" + name + "}"
	for _, a := range command {
		ok = ok || strings.Contains(a, mark)
		out = append(out, strings.ReplaceAll(a, mark, value))
	}
	if ok {
		return out, true
	}
	called := func(flag string) bool {
		return strings.HasPrefix(flag, "--") && strings.ReplaceAll(flag[2:], "_", "-") == strings.ReplaceAll(name,
			"_", "-")
	}
	for i, a := range out {
		flag, _, joined := strings.Cut(a, "=")
		switch {
		case joined && called(flag):
			out[i] = flag + "=" + value
			return out, true
		case called(a) && i+1 < len(out):
			out[i+1] = value
			return out, true
		}
	}
	return nil, false
}
