package wire

import (
	"errors"
	"reflect"
	"testing"
)

func TestParseStacks(t *testing.T) {
	text := "agent\t9\nthread\t7\t140\tMain\\tThread\t0\nframe\tT.fit\t/a\\\\n.py\t12\nlocal\tx\t'a\\nb'\nnew\tthing\ncut\t400\nframe\t<module>\t/a.py\t3\n" +
		"thread\t0\t150\t\t1\nleft\t2\n"
	want := []Thread{
		{TID: 7, Name: "Main\tThread", Cut: 400, CutAt: 1, Frames: []StackFrame{
			{Func: "T.fit", File: `/a\n.py`, Line: 12, Locals: []Local{{"x", "'a\nb'"}}},
			{Func: "<module>", File: "/a.py", Line: 3}}},
		{Daemon: true},
	}
	got, err := ParseStacks([]byte(text))
	if err != nil || !reflect.DeepEqual(got, Stacks{want, 2, 9}) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range []string{"frame\ta\tb\t1\n", "thread\tx\t1\t\t0\n", "thread\t1\n",
		"thread\t1\t1\t\t0\nframe\ta\n", "thread\t1\t1\t\t0\nlocal\ta\tb\n"} {
		if _, err := ParseStacks([]byte(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseStacks(f *testing.F) {
	f.Add([]byte("thread\t7\t140\tMain\t0\nframe\tf\t/a.py\t12\nlocal\tx\t1\ncut\t4\nleft\t1\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := ParseStacks(p)
		if err != nil && s.Threads != nil {
			t.Error("threads and an error")
		}
	})
}
