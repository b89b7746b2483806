package doctor_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/doctor"
	"github.com/memgauge/memgauge/test/golden"
)

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{doctor.Commands}, Cases: []golden.Case{
		{Name: "doctor-wrong", Real: true, Lines: []string{"doctor trainer", "doctor 5000001", "doctor 1 2",
			"doctor --jsno",
			"doctor 0", "doctor --python"}},
		{Name: "ring", Lines: []string{"debug ring v1.0.ring", "debug ring none.ring", "debug ring text.ring",
			"debug ring"}},
	}, Files: map[string]string{"v1.0.ring": "@testdata/rings/v1.0.ring", "text.ring": "no ring"}})
}
