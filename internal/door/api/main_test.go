package api

import (
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Leftovers(m) }
