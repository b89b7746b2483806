package questions

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
)

// Finding is a row of memgauge.findings, read back.
type Finding struct {
	model.Finding
	Micros     int64  `json:"t"` // since the epoch
	Number     int64  `json:"judgement"`
	RunVerdict string `json:"run_verdict"`
}

// Told is the finding as it was told when it was judged, but for what the table lacks.
func (f Finding) Told() model.Finding { return detect.Read(f.Finding) }

// Findings are those of the judgements after a number. A column has the name of the JSON's member, but for a few older
// ones.
func Findings(after int64) Of[Finding] {
	return Of[Finding](fmt.Sprintf(`SELECT *, epoch_us(ts) AS t, grown AS growth_bytes, limit_name AS "limit",
	seconds_to_limit AS time_to_limit_seconds, seconds_low AS time_to_limit_low, seconds_high AS time_to_limit_high
	FROM memgauge.findings WHERE judgement > %d ORDER BY judgement LIMIT 4000`, after))
}
