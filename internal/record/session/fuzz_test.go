package session

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzFiles opens a directory whose session.json, end.json and one ring have any content. Nothing panics, no process of
// this machine is mistaken for one of the session's, and nothing outside the directory is named as the session's own.
func FuzzFiles(f *testing.F) {
	f.Add(
		[]byte(`{"version":1,"id":"3f2a1c","name":"train-3f2a1c","command":["python","--password","x"],"uid":0,"dir"`+
			`:{"dev":1,"ino":2}}`),
		[]byte(`{"state":"killed","signal":"SIGKILL","oom":"an OOM kill"}`), []byte("MGRING"), "7.8.1.ring")
	f.Add(
		[]byte(`{"version":1,"name":"../../x","runtime":"/tmp","doors":[{"pid":1,"start":1,"fd":0}],"process":{"pid"`+
			`:1,"start":1}}`), []byte(`{}`), []byte{}, "1.1.1.ring")
	f.Add([]byte(`{"version":9}`), []byte(`[]`), []byte("\x00"), "-1.0.0.ring")
	f.Fuzz(func(t *testing.T, meta, end, ring []byte, name string) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ringsDir), dirPerm); err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{metaFile: meta, endFile: end} {
			if err := os.WriteFile(filepath.Join(dir, file), data, filePerm); err != nil {
				t.Fatal(err)
			}
		}
		// an impossible name is none
		_ = os.WriteFile(filepath.Join(dir, ringsDir, filepath.Base("x" + name)[1:]), ring, filePerm)
		s, err := Open(dir)
		if err != nil {
			return
		}
		if s.Rings() != filepath.Join(dir, ringsDir) || CheckName(s.Meta.Name) != nil {
			t.Fatalf("rings at %s, name %q", s.Rings(), s.Meta.Name)
		}
		if s.Live() || len(s.Askable()) > 0 {
			t.Fatalf("live, with %+v", s.Askable())
		}
		for _, p := range s.Processes() {
			if p.Alive {
				t.Fatalf("%+v lives", p)
			}
		}
		e, _, _ := s.End()
		_ = e.String()
		s.Unfinished()
	})
}
