package source

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
)

func TestParse(t *testing.T) {
	three, zero := 3, 0
	for _, c := range []struct {
		text string
		want Endpoint
	}{
		{"", Endpoint{}},
		{"27891", Endpoint{Wanted: ask.Wanted{PID: 27891}}},
		{"0", Endpoint{Wanted: ask.Wanted{Name: "0"}}},
		{"99999999999", Endpoint{Wanted: ask.Wanted{Name: "99999999999"}}},
		{"resnet-3f2a1c", Endpoint{Wanted: ask.Wanted{Name: "resnet-3f2a1c"}}},
		{"job", Endpoint{Wanted: ask.Wanted{Name: "job"}}},
		{"rank rank=0", Endpoint{Wanted: ask.Wanted{Name: "rank", Rank: &zero}}},
		{"lake", Endpoint{Wanted: ask.Wanted{Name: "lake"}}},
		{"runs/7", Endpoint{Wanted: ask.Wanted{Dir: "runs/7"}}},
		{"/my runs/a,b", Endpoint{Wanted: ask.Wanted{Dir: "/my runs/a,b"}}},
		{"a b", Endpoint{Wanted: ask.Wanted{Name: "a b"}}}, // there is none
		{"rank=3", Endpoint{Wanted: ask.Wanted{Rank: &three}}},
		{"resnet rank=0", Endpoint{Wanted: ask.Wanted{Name: "resnet", Rank: &zero}}},
		{"hub", Endpoint{Many: true}},
		{"gpu-1:4222", Endpoint{Many: true, Hub: "gpu-1:4222"}},
		{"[::1]:4222,job=llama", Endpoint{Many: true, Hub: "[::1]:4222", Job: "llama"}},
		{"hub job=llama, node=n1 rank=3",
			Endpoint{Many: true, Job: "llama", Node: "n1", Wanted: ask.Wanted{Rank: &three}}},
		{"job=a=b", Endpoint{Many: true, Job: "a=b"}},
		{"lake=/data/my lake,1", Endpoint{Lake: "/data/my lake,1"}},
		{"lake=s3://bucket/hub", Endpoint{Lake: "s3://bucket/hub"}},
	} {
		got, err := Parse(c.text)
		if err == nil && (got.Rank == nil) == (c.want.Rank == nil) && got.Rank != nil && *got.Rank == *c.want.Rank {
			got.Rank = c.want.Rank
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
	for text, says := range map[string]string{"rank=x": `"x" is not a rank`, "rank=-1": "is not a rank",
		"rank=1 rank=2": "said already",
		"job=":          "names nothing", "hub resnet": "together with a hub", "27891 hub": "27891",
		"a rank=1 b": "one session",
		"lake=":      "names nothing", "job=a job=b": "said already", "a:1 b:2": "said already"} {
		if e, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) || remedy.Of(err) == "" ||
			e.Given() {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	}
	if _, err := Parse("hub", "lake=/data"); err == nil {
		t.Error("a hub and a lake")
	}
}

// FuzzParse: whatever is said means one thing or is refused with a remedy, in whatever pieces the words come.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"27891", "hub job=llama,rank=7", "gpu-1:4222 node=n", "lake=/data", "runs/7",
		"rank=x"} {
		f.Add(text, "rank=1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		e, err := Parse(a, b)
		switch {
		case err != nil:
			if remedy.Of(err) == "" || e.Given() {
				t.Fatalf("%+v, %v", e, err)
			}
			return
		case e.Many && e.named(), e.Lake != "" && (e.Many || e.named() || e.Rank != nil):
			t.Fatalf("%q, %q: %+v", a, b, e)
		case !e.Many && (e.Job != "" || e.Node != "" || e.Hub != ""), e.PID < 0, e.Rank != nil && *e.Rank < 0:
			t.Fatalf("%q, %q: %+v", a, b, e)
		}
		if n := strings.Count(a+b, "="); n == 0 && !e.Many && e.PID == 0 && e.Given() && e.Name != a && e.Name != b &&
			e.Dir != a && e.Dir != b {
			t.Fatalf("%q, %q: %+v", a, b, e)
		}
	})
}
