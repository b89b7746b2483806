package app

import (
	"fmt"
	"os"
	"strings"
)

// minToken is the least length of a token that somebody makes: 16 characters of 64 are 96 bits.
const minToken = 16

// ReadToken reads the token in the file that --token-file names.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken {
		return "", Usage(fmt.Errorf("the token in %s has fewer than %d characters", path, minToken))
	}
	return token, nil
}
