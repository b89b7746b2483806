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

// TestSubjectOf: whatever runs code or writes in a training is sent where it needs to be allowed, and what is not
// spelled as a question is sent nowhere.
func TestSubjectOf(t *testing.T) {
	for path, want := range map[string]string{"/v1/eval": "mg.grant.n1", "/v1/record": "mg.grant.n1",
		"/v1/snapshot?bytes": "mg.grant.n1", "/v1/interrupt": "mg.grant.n1", "/v1/query": "mg.ask.n1",
		"/v1/leak": "mg.ask.n1", "": "mg.ask.n1", "/v1/eval#x": "", "/v1/%65val": "", "/v1/later": ""} {
		got, err := subjectOf(Question{Method: "POST", Path: path, Select: Select{Node: "n1"}})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", path, got, err)
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
