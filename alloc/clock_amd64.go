package alloc

// The time stamp counter: RDTSC, Intel® 64 and IA-32 Architectures Software Developer's Manual, volume 3, 19.17.
const (
	haveTicks   = true
	ticksSource = "tsc"
)

// ticks reads the counter. It is in clock_amd64.s.
func ticks() int64
