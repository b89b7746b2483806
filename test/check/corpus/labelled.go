package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memgauge/memgauge/internal/judge/check"
)

// Labelled is how the rules do on programs that were written for the judge of recordings, by others and for another
// purpose: leaks of every kind, native ones too, and their healthy twins.
type Labelled struct {
	Folder                  string
	Leaks, Found            int
	Healthy, Wrong          int
	WrongIn, MissedPrograms []string
}

// LabelledPrograms checks the programs of test/accuracy, below the root of the repository.
func LabelledPrograms(root string) (list []Labelled, err error) {
	for _, folder := range []string{"corpus", "corpus/hard"} {
		l, err := labelled(root, folder)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

func labelled(root, folder string) (l Labelled, err error) {
	l.Folder = folder
	dir := filepath.Join(root, "test", "accuracy", filepath.FromSlash(folder))
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return l, err
	}
	var manifest struct {
		Programs []struct{ Name, File, Label string }
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return l, fmt.Errorf("%s: %w", folder, err)
	}
	for _, p := range manifest.Programs {
		found, _ := check.Read(filepath.Join(dir, p.File), check.Selection{})
		switch leaks := p.Label == "leak"; {
		case leaks && len(found) > 0:
			l.Leaks++
			l.Found++
		case leaks:
			l.Leaks++
			l.MissedPrograms = append(l.MissedPrograms, p.Name)
		case len(found) > 0:
			l.Healthy++
			l.Wrong++
			l.WrongIn = append(l.WrongIn, p.Name)
		default:
			l.Healthy++
		}
	}
	return l, nil
}
