package fanout

import (
	"bytes"
	"testing"
)

func TestPartsComeBack(t *testing.T) {
	p := Part{Kind: Body, Instance: "i", ID: "s", Data: []byte("rows")}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodePart(b)
	if err != nil || got.Kind != p.Kind || got.ID != p.ID || !bytes.Equal(got.Data, p.Data) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestChanges: whatever runs code or writes in a training needs to be allowed.
func TestChanges(t *testing.T) {
	for path, want := range map[string]bool{"/v1/eval": true, "/v1/record": true, "/v1/snapshot?bytes": true,
		"/v1/interrupt": true, "/v1/query": false, "/v1/leak": false} {
		if Changes(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func FuzzDecodePart(f *testing.F) {
	b, err := Part{Kind: Head, Status: 200}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = DecodePart(b) })
}
