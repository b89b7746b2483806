package lake

import (
	"os"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) {
	if os.Getenv(childKey) != "" { // the writer that tests kill
		child()
		return
	}
	env.Leftovers(m)
}
