package remedy

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestHintSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("open x: %w", Add(io.EOF, "try again"))
	if got := Of(err); got != "try again" {
		t.Errorf("Of = %q", got)
	}
	if !errors.Is(err, io.EOF) || err.Error() != "open x: EOF" {
		t.Errorf("the error itself changed: %v", err)
	}
	if Add(nil, "x") != nil || Of(io.EOF) != "" {
		t.Error("a hint appeared from nowhere")
	}
}
