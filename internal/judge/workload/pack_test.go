package workload

import (
	"compress/gzip"
	"errors"
	"os"
)

func pack(f *os.File, text []byte) error {
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(text)
	return errors.Join(err, z.Close(), f.Close())
}
