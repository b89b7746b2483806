package export_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// extreme is a session elsewhere all of whose answers have one number, wherever there is one.
type extreme struct {
	hostile
	number int64
}

// fill gives every part of an answer a value: lists and maps have one or more of them.
func (x *extreme) fill(v reflect.Value, depth int) {
	switch {
	case depth > 8 || !v.CanSet():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMicro(x.number).UTC()))
	case v.CanInt():
		v.SetInt(x.number)
	case v.CanUint():
		v.SetUint(uint64(x.number))
	case v.CanFloat():
		v.SetFloat(float64(x.number))
	case v.Kind() == reflect.String:
		v.SetString(x.word)
	case v.Kind() == reflect.Bool:
		v.SetBool(x.number < 0)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		x.fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			x.fill(v.Index(i), depth+1)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			x.fill(v.Index(i), depth+1)
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		x.fill(key, depth+1)
		x.fill(value, depth+1)
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			x.fill(v.Field(i), depth+1)
		}
	}
}

func answer[T any](x *extreme) (v T, err error) {
	x.fill(reflect.ValueOf(&v).Elem(), 0)
	return v, nil
}

func (x *extreme) End(context.Context) (api.End, error) {
	end, err := answer[api.End](x)
	end.Live = false
	return end, err
}

func (x *extreme) Processes(context.Context, api.ProcessesRequest) ([]api.Process, error) {
	return answer[[]api.Process](x)
}

func (x *extreme) Tables(context.Context, bool) ([]model.Table, error) {
	return answer[[]model.Table](x)
}

func (x *extreme) Summary(context.Context) (api.Summary, error) { return answer[api.Summary](x) }

func (x *extreme) Outcome(context.Context) (api.Summary, error) { return answer[api.Summary](x) }

func (x *extreme) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	return answer[detect.Report](x)
}

func (x *extreme) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	return answer[*monitor.Report](x)
}

func (x *extreme) Where(context.Context) (api.Where, error) { return answer[api.Where](x) }

func (x *extreme) Census(context.Context, api.CensusRequest) (api.CensusReply, error) {
	return answer[api.CensusReply](x)
}

func (x *extreme) Backtrace(context.Context, api.BacktraceRequest) (api.BacktraceReply, error) {
	return answer[api.BacktraceReply](x)
}

func (x *extreme) Blocks(context.Context, api.BlocksRequest) (api.BlocksReply, error) {
	return answer[api.BlocksReply](x)
}

// Query answers every question with rows whose columns, of all statements, are the number.
func (x *extreme) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	if q.Format != "ndjson" {
		_, err := fmt.Fprintln(w, x.number)
		return err
	}
	row := map[string]any{}
	for _, name := range []string{"i", "from", "to", "pid", "rank", "step", "steps", "peak", "n", "moment", "count",
		"bytes", "size", "allocated", "reserved", "rss", "t", "ts", "total", "used", "first", "last"} {
		row[name] = x.number
	}
	for range 3 {
		if err := json.NewEncoder(w).Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// TestExtremesOfOthers: whatever numbers a session elsewhere answers with, a command ends with an answer or an error.
func TestExtremesOfOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, number := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		for i, line := range [][]string{{"export", "--tensorboard", "out"}, {"export", "--parquet", "out"},
			{"export", "--perfetto", "a.json"}, {"export", "--pprof", "a.pb.gz"}, {"report", "--json"}, {"leak"},
			{"leak", "--json"}, {"where"}, {"where", "--json"}, {"tensors"}, {"backtrace"}, {"backtrace", "--json"},
			{"tables"}} {
			x := &extreme{hostile{word: "cuda:0"}, number}
			said, err := tell(t, x, x.about(), line)
			if testing.Verbose() {
				t.Logf("%d %d %v: %.200v; %.300s", number, i, line, err, said)
			}
		}
	}
}
