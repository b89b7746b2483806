package web

import (
	"reflect"
	"testing"

	"github.com/memgauge/memgauge/internal/door/questions"
)

// TestALeakIsCreditedToItsHolder: what grew since the census is the holder's, not that of others; a census that has
// counted more is believed.
func TestALeakIsCreditedToItsHolder(t *testing.T) {
	held := []questions.HostHolding{{Holder: "model", Bytes: 50}, {Holder: "kept[*]", Bytes: 30},
		{Holder: "kept_too", Bytes: 5}}
	got := credited(held, questions.HostHolding{Holder: "kept", Bytes: 200})
	want := []questions.HostHolding{{Holder: "kept", Bytes: 200}, held[0], held[2]}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got = credited(held, questions.HostHolding{Holder: "kept", Bytes: 30}); !reflect.DeepEqual(got, held) {
		t.Errorf("%+v", got)
	}
}
