package web

//go:generate go test -run TestShapesOfThePage -update .

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/page"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

var update = flag.Bool("update", false, "write the TypeScript of the answers' types anew")

// shapes are the answers that the page knows, by their names there. A type that has none is written where it is used.
var shapes = []struct {
	name string
	of   any
}{
	{"Config", config{}}, {"Listed", listed{}}, {"Brief", questions.Standing{}}, {"Process", questions.Stepped{}},
	{"About", described{}},
	{"Columns", columns{}}, {"Event", questions.Event{}}, {"Node", node{}}, {"Where", picked{}}, {"Finding", card{}},
	{"Risk", risk{}}, {"Peak", peak{}}, {"Verdicts", judged{}}, {"Source", excerpt{}}, {"Census", questions.Census{}},
	{"Group", questions.Group{}},
	{"Grown", questions.Object{}}, {"Tensors", counted{}}, {"Frame", api.Frame{}}, {"Thread", api.Thread{}},
	{"Stacks", api.BacktraceReply{}}, {"Cost", costs{}}, {"Table", model.Table{}}, {"News", news{}}, {"Ran", ranOut{}},
	{"Grower", page.Grower{}}, {"Flame", drawnFlame{}}, {"Burned", burned{}}, {"NativeLine", questions.NativeLine{}},
	{"NativeBefore", questions.NativeBefore{}},
	{"Native", nativeHeld{}}, {"HeatRow", heatRow{}}, {"Heat", heat{}}, {"Said", said{}}, {"Held", held{}},
	{"Device", shotDevice{}}, {"Shot", shown{}}, {"StackFrame", shotFrame{}}, {"Block", shotBlock{}},
	{"Moment", moment{}}, {"Run", run{}}, {"Segment", segment{}}, {"Segments", mapped{}},
	{"Delta", anatomy.Delta{}}, {"Deltas", anatomy.Deltas{}}, {"Diff", anatomy.Diff{}},
}

// nullLists are the lists that Go may leave nil: JSON then has null.
var nullLists = map[string]bool{
	"Listed.command": true, "Listed.pids": true, "Listed.ranks": true, "About.command": true, "About.cgroups": true,
	"Thread.frames": true, "Stacks.threads": true, "Ran.minute": true, "Ran.largest": true, "Ran.grew": true,
	"Deltas.sites": true, "Deltas.categories": true,
}

// asTold are the types that write their JSON themselves.
var asTold = map[reflect.Type]string{
	reflect.TypeFor[time.Time]():       "string",
	reflect.TypeFor[json.RawMessage](): "unknown",
	reflect.TypeFor[monitor.Number]():  "number | null",
	reflect.TypeFor[monitor.Level]():   "string",
	reflect.TypeFor[model.Text]():      "string | null",
	reflect.TypeFor[model.Rank]():      "number | null",
	reflect.TypeFor[model.Count]():     "number | null",
	reflect.TypeFor[model.MB]():        "number | null",
	reflect.TypeFor[model.Seconds]():   "number | null",
	reflect.TypeFor[model.Chance]():    "number | null",
	reflect.TypeFor[model.Lines]():     "string[]",
	reflect.TypeFor[[]byte]():          "string",
}

// TestShapesOfThePage: web/shapes.ts has the types of the answers as Go writes them.
func TestShapesOfThePage(t *testing.T) {
	const file = "../../../web/shapes.ts"
	var b bytes.Buffer
	b.WriteString("// Made by `make generate` from internal/faces/web. Sizes are bytes, times µs since the epoch.\n")
	for _, s := range shapes {
		fmt.Fprintf(&b, "\nexport interface %s {\n", s.name)
		members(&b, s.name, reflect.TypeOf(s.of))
		b.WriteString("}\n")
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not what the types say: make generate (%v)", file, err)
	}
}

func members(b *bytes.Buffer, shape string, typ reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			members(b, shape, f.Type)
		case !f.IsExported() || tag == "-":
		case f.Type.Kind() == reflect.Func:
		default:
			name, optional := f.Name, strings.Contains(options, "omitempty")
			if tag != "" {
				name = tag
			}
			text := written(shape, f.Type)
			if optional {
				text, name = strings.TrimSuffix(text, " | null"), name+"?"
			} else if nullLists[shape+"."+name] {
				text += " | null"
			}
			fmt.Fprintf(b, "  %s: %s;\n", name, text)
		}
	}
}

// written is a type in TypeScript's words.
func written(shape string, typ reflect.Type) string {
	if text, ok := asTold[typ]; ok {
		return text
	}
	for _, s := range shapes {
		if reflect.TypeOf(s.of) == typ {
			return s.name
		}
	}
	switch {
	case typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	case typ.Implements(reflect.TypeFor[json.Marshaler]()) && typ.Kind() != reflect.Pointer:
		panic("asTold lacks " + typ.String())
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return strings.TrimSuffix(written(shape, typ.Elem()), " | null") + " | null"
	case reflect.Slice:
		elem := written(shape, typ.Elem())
		if of := typ.Elem(); of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct {
			elem = strings.TrimSuffix(elem, " | null") // lists of structs have no holes
		}
		if strings.Contains(elem, " ") && !strings.HasPrefix(elem, "{") {
			elem = "(" + elem + ")"
		}
		return elem + "[]"
	case reflect.Array:
		return "[" + strings.TrimSuffix(strings.Repeat(written(shape, typ.Elem())+", ", typ.Len()), ", ") + "]"
	case reflect.Map:
		return "Record<string, " + written(shape, typ.Elem()) + ">"
	case reflect.Struct:
		var b bytes.Buffer
		members(&b, shape, typ)
		return "{ " + strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(b.String(), "\n", ""), "  ", " ")) + " }"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Interface:
		return "unknown"
	}
	return "number"
}
