package rootdir

import (
	"os"
	"strings"
	"time"
)

// Lock locks the directory for whoever uses it, until Unlock of the file. It does not wait.
func (d *Dir) Lock() (*os.File, error) {
	f, err := d.Handle()
	if err != nil {
		return nil, err
	}
	if err := TryLock(f, true); err != nil {
		f.Close()
		return nil, d.fail("lock", "", err)
	}
	return f, nil
}

// Sweep removes directories of ours below a path whose names begin with a prefix, that are as old, and that nobody has
// locked: processes that were killed have left them. What can't be removed is left to the next.
func Sweep(parent, prefix string, age time.Duration) {
	d, err := Open(parent)
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.List() // what can't be listed can't be swept
	for _, e := range entries {
		old := age == 0 || time.Since(e.Modified) >= age
		if strings.HasPrefix(e.Name, prefix) && int(e.UID) == os.Geteuid() && old {
			d.sweep(e.Name)
		}
	}
}

func (d *Dir) sweep(name string) {
	dir, err := d.Sub(name)
	if err != nil { // a link, or removed by another
		return
	}
	defer dir.Close()
	if lock, err := dir.Lock(); err == nil {
		_ = d.RemoveAll(name)
		_ = Unlock(lock)
	}
}
