package store

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// oracleSamples are those that the statements of users are asked about.
func oracleSamples() model.Samples {
	var s model.Samples
	for i := range 30 {
		s.GPUs = append(s.GPUs, model.GPUUtilization{Time: int64(i) * 1e6, Used: int64(i) << 30, Total: 80 << 30,
			GPUPct: int64(i)})
	}
	for i, wchan := range []string{"futex_wait_queue", "", "do_epoll_wait", "futex_wait_queue"} {
		s.Utilization = append(s.Utilization, model.Utilization{Time: int64(i), PID: 7, TID: int32(7 + i),
			Comm: fmt.Sprint("t", i), Wchan: wchan, RSS: model.Null})
	}
	s.Utilization = append(s.Utilization, model.Utilization{PID: 7, Comm: "python", Wchan: "do_wait"})
	return s
}

func gpuOracle([]seen) (out [][]any) {
	for i := 29; i > 9; i-- {
		out = append(out, []any{time.UnixMicro(int64(i) * 1e6).UTC(), 100 * float64(i) / 80, int64(i)})
	}
	return out
}

func wchanOracle([]seen) [][]any {
	return [][]any{{"futex_wait_queue", int64(2), "t3"}, {"do_epoll_wait", int64(1), "t2"}}
}

// fillFields gives every field of a struct a value of its own, and says how many it has set since from.
func fillFields(s reflect.Value, from int) int {
	for i := range s.NumField() {
		f := s.Field(i)
		from++
		switch f.Kind() {
		case reflect.Struct:
			from = fillFields(f, from)
		case reflect.String:
			f.SetString(fmt.Sprint("text ", from))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(float64(from))
		case reflect.Int8:
			f.SetInt(int64(from % 100))
		default:
			f.SetInt(int64(from))
		}
	}
	return from
}

// TestRowsArriveWhole holds every field of every table's row against its column.
func TestRowsArriveWhole(t *testing.T) {
	db := open(t, Options{})
	for n, about := range table.All {
		if about.Rows == nil || about.Store == "trace" { // names and stages are looked up: TestAppendStoresEveryTable
			continue
		}
		var b model.Batch
		list := reflect.ValueOf(about.Rows(&b)).Elem()
		row := reflect.New(list.Type().Elem()).Elem()
		fillFields(row, n*1000)
		list.Set(reflect.Append(list, row))
		add(t, db, &b)
		for _, c := range about.Columns {
			if c.From == nil {
				continue
			}
			got := ask(t, db, "SELECT "+c.Stored+" FROM store."+about.Store)
			if len(got) != 1 {
				t.Fatalf("%s has %d rows", about.Store, len(got))
			}
			value := got[0][0]
			if at, ok := value.(time.Time); ok {
				value = at.UnixMicro()
			}
			field := unsafe.Add(row.Addr().UnsafePointer(), c.Offset(about))
			want := reflect.NewAt(reflect.TypeOf(c.From).Elem(), field).Elem().Interface()
			if c.Fill == table.Device {
				want = fmt.Sprint("cuda:", want)
			}
			if fmt.Sprint(value) != fmt.Sprint(want) {
				t.Errorf("%s.%s: %v, want %v", about.Store, c.Stored, value, want)
			}
		}
	}
}

func TestSamplesMissing(t *testing.T) {
	db := open(t, Options{})
	add(t, db, &model.Batch{Samples: model.Samples{
		Memory:      []model.ProcessMemory{{PID: 1, Rank: -1, PSS: model.Null, HeapInUse: model.Null}},
		Utilization: []model.Utilization{{PID: 1, Rank: -1, UserPct: math.NaN(), SysPct: math.NaN(), Comm: "a\xff"}},
		Cgroups:     []model.CgroupMemory{{Limit: model.Null, Pressure: model.Pressure{SomeAvg10: math.NaN()}}},
	}})
	for sql, want := range map[string]string{
		"SELECT rank, pss, heap_free, rss FROM process.memory":               "[[<nil> <nil> <nil> 0]]",
		"SELECT scope, tid, cpu_total_pct, comm FROM cpu.utilization":        "[[process <nil> <nil> a\uFFFD]]",
		"SELECT limit_bytes, psi_some_avg10, psi_full_us FROM cgroup.memory": "[[<nil> <nil> 0]]",
	} {
		if got := fmt.Sprint(ask(t, db, sql)); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func TestTreeAndDevicesAreReplaced(t *testing.T) {
	db := open(t, Options{})
	add(t, db, &model.Batch{Samples: model.Samples{
		Tree: []model.TreeProcess{{PID: 1, StartTicks: 5, Role: "other"}, {PID: 2, StartTicks: 6},
			{PID: 1, StartTicks: 5, Role: "trainer"}},
		Devices: []model.GPUDevice{{UUID: "it's", State: "ok"}, {UUID: "b"}},
	}})
	add(t, db, &model.Batch{Samples: model.Samples{
		Tree:    []model.TreeProcess{{PID: 2, StartTicks: 6, Ended: true}},
		Devices: []model.GPUDevice{{UUID: "it's", State: "lost"}},
	}})
	if got := fmt.Sprint(ask(t, db,
		"SELECT pid, role, ended FROM process.tree ORDER BY pid")); got != "[[1 trainer false] [2  true]]" {
		t.Errorf("tree %s", got)
	}
	if got := fmt.Sprint(ask(t, db, "SELECT uuid, state FROM gpu.devices ORDER BY uuid")); got != "[[b ] [it's lost]]" {
		t.Errorf("devices %s", got)
	}
}

// TestSamplesAreThinned: what goes first is detail, and the highest of each ten seconds stays.
func TestSamplesAreThinned(t *testing.T) {
	db := open(t, Options{})
	var b model.Batch
	for i := range int64(100) {
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: i * 1e6, PID: 1, RSS: i % 7},
			model.ProcessMemory{Time: i * 1e6, PID: 2, RSS: model.Null})
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: i * 1e6, Available: i})
	}
	add(t, db, &b)
	ctx := context.Background()
	err := db.withConn(ctx, func(c *conn) error {
		for _, view := range []string{"process.memory", "host.memory"} {
			if err := c.exec(removal(levelThin, table.Find(view),
				"ts >= make_timestamp(0) AND ts < make_timestamp(100000000)")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT pid, count(*), min(rss) FROM process.memory GROUP BY pid ORDER BY pid": "[[1 10 6] [2 10 <nil>]]",
		"SELECT count(*), max(available) FROM host.memory":                             "[[10 90]]",
	} {
		if got := fmt.Sprint(ask(t, db, sql)); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
