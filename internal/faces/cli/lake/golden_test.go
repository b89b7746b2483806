package lake_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/lake"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{lake.Commands}, Cases: []golden.Case{
		{Name: "status", Real: true, Lines: []string{"lake status none", "lake status", "lake status a b",
			"lake status ftp://host/lake", "lake status s3://", "lake", "lake staus none"}},
		{Name: "merge", Real: true, Lines: []string{"lake merge none", "lake merge", "lake merge none --max-age old",
			"lake merge none --max-size big"}},
		{Name: "trino", Real: true, Lines: []string{"lake trino none", "lake trino", "lake trino none --server trino",
			"lake trino none --every often"}},
	}})
}
