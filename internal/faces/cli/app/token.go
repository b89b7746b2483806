package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// minToken is the least length of a token that somebody makes: 16 characters of 64 are 96 bits.
const minToken = 16

// maxToken bounds what is read of a token's file, in bytes.
const maxToken = 4 << 10

func readToken(path string) ([]byte, error) {
	f, err := rootdir.OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxToken))
}

// ReadToken reads the token in the file that --token-file names.
func ReadToken(path string) (string, error) {
	text, err := readToken(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken {
		return "", Usage(fmt.Errorf("the token in %s has fewer than %d characters", path, minToken))
	}
	return token, nil
}
