package detect

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Kinds of holders that their type alone does not tell.
const (
	cacheKind  = "cache"        // functools.lru_cache
	methodKind = "method cache" // … on a method: the object is in each key
	cycleKind  = "itertools.cycle"
)

// kindOf is what a holder is, by its type and what the census says of it.
func kindOf(name, detail string) string {
	switch {
	case strings.Contains(detail, "; of a method"):
		return methodKind
	case strings.Contains(detail, "functools._lru_list_elem") || name == "_lru_cache_wrapper":
		return cacheKind
	case strings.Contains(detail, "; in "+cycleKind):
		return cycleKind
	}
	return name
}

// grownTo says what a holder has, and what it gains.
func grownTo(name, detail string, length, gain float64, unit string) string {
	if strings.HasPrefix(detail, "of bytes in one piece") {
		return fmt.Sprintf("%s, %s, +%s per %s", name, units.Bytes(math.Round(length)), units.Bytes(math.Round(gain)),
			unit)
	}
	if name == "_lru_cache_wrapper" {
		name = "lru_cache"
	}
	return fmt.Sprintf("%s, %s items, %+.3g per %s", name, units.Count(int64(length)), gain, unit)
}

// viewed is how much larger storages must be than what the tensors show of them for these to be views.
const viewed = 2

// itemSizes of tensors' types, in bytes; what is not listed is not known.
var itemSizes = map[string]float64{"float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2,
	"bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}

var dimension = pattern.Of(`\d+`)

// shown is how many bytes tensors of one row show of their storages: by their shape, or the commonest of several; NaN
// where it isn't known.
func shown(t model.TensorGroup) float64 {
	each, known := itemSizes[t.Dtype]
	if !known || !strings.HasPrefix(t.Shape, "(") || t.Role != "tensor" {
		return math.NaN()
	}
	for _, d := range dimension().FindAllString(t.Shape, -1) {
		n, _ := strconv.ParseFloat(d, 64)
		each *= n
	}
	return each * float64(t.Count)
}
