package model

// Finding is a row of memgauge.findings: the verdict on one memory of one process. Sizes are bytes; a float that is NaN
// or infinite is not known.
type Finding struct {
	Time                    int64 // µs since the epoch
	Judgement               int64 // number of the judging in its session, from 1; its rows stand together
	Run                     string
	Verdict                 string // leak, healthy, undecided
	Class                   string
	Memory                  string
	Device                  string // cuda:0; "" for the host
	PID, Rank               int32  // rank -1 unknown
	Worker                  bool
	Rate                    float64 // a step
	Low, High               float64
	ByTime                  bool  // there were no steps: rates are by reading
	Start, End              int64 // steps; Null unknown
	Grown                   int64
	Noise, P                float64
	Readings                int64
	Reason                  string
	Site                    string
	Holder                  string
	Held                    string
	Evidence                string // lines
	Advice                  string // lines
	Limit                   string
	Seconds                 float64 // to the limit
	SecondsLow, SecondsHigh float64
}
