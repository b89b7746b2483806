//go:build !amd64

package alloc

const (
	haveTicks   = false
	ticksSource = ""
)

func ticks() int64 { return 0 }
