package rootdir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// These take a path in place of a directory and a name: the last part is the name.

// In opens the directory of a path, has something done with the last part in it, and closes it.
func In(path string, do func(d *Dir, name string) error) error {
	d, err := Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return do(d, filepath.Base(path))
}

func fileIn(path string, open func(d *Dir, name string) (*os.File, error)) (f *os.File, err error) {
	err = In(path, func(d *Dir, name string) error {
		f, err = open(d, name)
		return err
	})
	return f, err
}

// OpenFile is Dir.Open.
func OpenFile(path string) (*os.File, error) { return fileIn(path, (*Dir).Open) }

// CreateFile is Dir.Create.
func CreateFile(path string) (*os.File, error) { return fileIn(path, (*Dir).Create) }

// EditFile is Dir.Edit.
func EditFile(path string) (*os.File, error) { return fileIn(path, (*Dir).Edit) }

// AppendFile is Dir.Append.
func AppendFile(path string) (*os.File, error) { return fileIn(path, (*Dir).Append) }

// ReadFile is Dir.ReadFile.
func ReadFile(path string, most int64) (text []byte, err error) {
	err = In(path, func(d *Dir, name string) error {
		text, err = d.ReadFile(name, most)
		return err
	})
	return text, err
}

// ReplaceText is Dir.ReplaceText.
func ReplaceText(path string, text []byte) error {
	return In(path, func(d *Dir, name string) error { return d.ReplaceText(name, text) })
}

// Remove is Dir.Remove.
func Remove(path string) error { return In(path, (*Dir).Remove) }

// RemoveAll is Dir.RemoveAll.
func RemoveAll(path string) error { return ignoreMissing(In(path, (*Dir).RemoveAll)) }

// Anonymous makes a file without a name, which goes with the process however that ends.
func Anonymous(prefix string) (*os.File, error) {
	d, err := openPlace("")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for range tries {
		name := randomName(prefix)
		f, err := d.Create(name)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := d.Remove(name); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	return nil, d.fail("make", prefix+"*", unix.EEXIST)
}

// OpenNamed opens a file that a user has named, for reading: links are followed, but nothing else than a regular file
// is waited for.
func OpenNamed(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("it is " + Kind(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
