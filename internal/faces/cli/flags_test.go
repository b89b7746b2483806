package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// arguments are what commands need besides their flags, so that only the flag is wrong.
var arguments = map[string]string{
	"alloc advise": "a.pickle", "alloc convert": "a.pickle b.csv", "alloc replay": "a.pickle", "attach": "999999999",
	"baseline check": "", "baseline save": "", "check": "a.py", "detach": "999999999", "estimate": "a.py",
	"eval": "1", "export": "--pprof out", "guard test": "a.yaml", "lake merge": "lake", "lake trino": "lake",
	"native flame": "-o out.svg", "query": "SELECT", "run": "-- true", "snapshot": "a.pickle",
	"snapshot diff": "a.pickle b.pickle", "snapshot export": "a.pickle", "snapshot flame": "a.pickle -o out.html",
	"snapshot query": "SELECT a.pickle", "snapshot tables": "a.pickle", "snapshot record": "--on",
	"snapshot take": "-o out", "top": "--once",
	"node": "--join 127.0.0.1:1",
}

// wrong are values that the flags of texts refuse: by the flag's name, or the command's and it.
var wrong = map[string]string{
	"--budget": "much", "--max-disk": "big", "attach --timeout": "soon", "backtrace --timeout": "soon",
	"detach --timeout": "soon", "eval --timeout": "soon", "--trace": "some", "--policy": "best", "--conf": "x",
	"--format": "xml", "--select": "MG9999", "--ignore": "MG9999", "--explain": "MG9999", "--role": "boss",
	"--devices": "gpu", "--precision": "fp3", "--device-memory": "huge", "--at": "noon", "--from": "noon",
	"--to": "noon", "--otlp": "ftp://x", "--allow": "all", "--on-oom": "pray", "--native": "few", "--engine": "spark",
	"--since": "noon", "top --interval": "often", "--stacks": "java", "--listen": "nowhere", "--addr": "nowhere",
	"hub --lake": "ftp://x", "lake trino --server": "ftp://x", "query --trino": "ftp://x", "--nats": "http://x",
	"--prometheus": "nowhere", "run --name": "4711", "attach --name": "4711",
}

// together are flags that go with others.
var together = map[string]string{"run --max-retries": "--on-oom retry --guard guide", "run --on-oom": "--guard guide",
	"export --interval": "--otlp http://127.0.0.1:1", "export --linger": "--prometheus :0", "top --replay": "",
	"leak --interval": "--watch", "check --explain": ""}

// wrongValues are some values that a flag must refuse.
func wrongValues(command string, f *pflag.Flag) (values []string) {
	switch kind := f.Value.Type(); kind {
	case "bool", "string", "stringSlice", "stringArray":
		value := wrong[command+" --"+f.Name]
		if value == "" {
			value = wrong["--"+f.Name]
		}
		if value != "" {
			values = append(values, value)
		}
	case "duration":
		values = append(values, "often", "-1s", "NaN", "1e300h")
	case "int", "int64", "intSlice":
		values = append(values, "some", "1.5", "99999999999999999999")
		if f.Name != "rank" {
			values = append(values, "-1")
		}
	default:
		values = append(values, "some", "-1")
	}
	return values
}

// TestWrongFlags gives every flag that takes a number, a size, a duration, a time, a name or a list a value that it
// can't mean: that is a usage error, and it names the flag.
func TestWrongFlags(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	a := &app.App{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Families: families}
	tried := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		command := strings.TrimPrefix(c.CommandPath(), "memgauge ")
		if c.Hidden {
			return
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, value := range wrongValues(command, f) {
				tried++
				words := append(strings.Fields(command), "--"+f.Name+"="+value)
				words = append(words, strings.Fields(together[command+" --"+f.Name])...)
				if f.Name != "explain" {
					words = append(words, strings.Fields(arguments[command])...)
				}
				refused(t, words, "--"+f.Name)
			}
		})
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(a.RootCommand())
	if tried < 150 {
		t.Errorf("only %d values were tried", tried)
	}
}

func refused(t *testing.T, words []string, flag string) {
	t.Helper()
	var out, said bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- Main(slices.Clone(words), strings.NewReader(""), &out, &said) }()
	var code int
	select {
	case code = <-ended:
	case <-time.After(patience):
		t.Errorf("%s: it runs", strings.Join(words, " "))
		return
	}
	if code != 2 || !strings.Contains(said.String(), flag) || out.Len() > 0 {
		t.Errorf("%s: exit %d: %s%s", strings.Join(words, " "), code, said.String(), out.String())
	}
}

// patience is how long a command that takes a wrong value may run before the test gives it up.
const patience = 5 * time.Second
