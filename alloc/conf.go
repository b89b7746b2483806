package alloc

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Set reads settings into the options, in the syntax of PYTORCH_ALLOC_CONF ("max_split_size_mb:128,
// expandable_segments:True, roundup_power2_divisions:[256:1,512:2,>:8]") or of GENESIS_CUDA_ALLOC_CONF
// ("gc_threshold=0.7, max_split_size_mb=64"). It adds policy, segment_mb, memory_fraction, adaptive, warm_up_mb
// ("[1:16:256]"), events and debug. Settings of PyTorch's that have no meaning here are accepted; unknown ones are an
// error that names them.
func (o *Options) Set(conf string) error {
	for _, item := range SplitConf(conf) {
		i := strings.IndexAny(item, ":=")
		if i < 0 {
			return fmt.Errorf("allocator setting %q: want name:value", item)
		}
		name, value := strings.TrimSpace(item[:i]), strings.TrimSpace(item[i+1:])
		if err := o.setOne(name, value); err != nil {
			return fmt.Errorf("allocator setting %s: %w", name, err)
		}
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("allocator settings %q: %w", conf, err)
	}
	return nil
}

// SplitConf cuts settings at commas outside brackets.
func SplitConf(conf string) (items []string) {
	depth, start := 0, 0
	for i := range len(conf) + 1 {
		switch {
		case i == len(conf), conf[i] == ',' && depth == 0:
			if item := strings.TrimSpace(conf[start:i]); item != "" {
				items = append(items, item)
			}
			start = i + 1
		case conf[i] == '[':
			depth++
		case conf[i] == ']':
			depth--
		}
	}
	return items
}

func (o *Options) setOne(name, value string) (err error) {
	switch name {
	case "policy":
		o.Policy = Policy(value)
	case "max_split_size_mb":
		o.MaxSplitSize, err = mebibytes(value)
	case "large_segment_size_mb":
		o.LargeSegmentSize, err = mebibytes(value)
	case "max_non_split_rounding_mb":
		o.MaxNonSplitRounding, err = mebibytes(value)
	case "throw_on_cudamalloc_oom":
		o.ThrowOnFull, err = boolean(value)
	case "segment_mb":
		o.SegmentSize, err = mebibytes(value)
	case "max_pool_size_mb":
		o.MaxCached, err = mebibytes(value)
	case "garbage_collection_threshold", "gc_threshold":
		o.GCThreshold, err = fraction(value)
	case "fragmentation_threshold":
		o.FragmentationThreshold, err = fraction(value)
	case "memory_fraction", "per_process_memory_fraction":
		o.MemoryFraction, err = fraction(value)
	case "expandable_segments":
		o.ExpandableSegments, err = boolean(value)
	case "large_from_1mb":
		o.LargeFromMiB, err = boolean(value)
	case "adaptive":
		o.Adaptive, err = boolean(value)
	case "debug":
		o.Debug, err = boolean(value)
	case "events":
		o.EventCapacity, err = strconv.Atoi(value)
	case "warm_up_mb":
		err = o.setWarmUp(value)
	case "roundup_power2_divisions":
		err = o.setDivisions(value)
	case "backend":
		if value != "native" {
			err = fmt.Errorf("%q: only native has rules to follow", value)
		}
	case "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
		"pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
		"pinned_reserve_segment_size_mb", "pinned_max_cached_size_mb", "pinned_max_round_threshold_mb",
		"pinned_free_catch_all",
		"graph_capture_record_stream_reuse", "use_cuda_host_register", "expandable_segments_reserve",
		"expandable_segments_reserve_by_class":
		// PyTorch's settings without effect on where blocks lie
	default:
		err = fmt.Errorf("no such setting")
	}
	return err
}

func mebibytes(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxRequest>>20 {
		return 0, fmt.Errorf("%q is not a number of MiB", s)
	}
	return n << 20, nil
}

func fraction(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", s)
	}
	return f, nil
}

func boolean(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q: want True or False", s)
}

func (o *Options) setWarmUp(value string) error {
	o.WarmUp = nil
	for _, s := range strings.FieldsFunc(strings.Trim(value, "[]"), func(r rune) bool {
		return r == ':' || r == ',' ||
			r == ' '
	}) {
		n, err := mebibytes(s)
		if err != nil {
			return err
		}
		o.WarmUp = append(o.WarmUp, n)
	}
	return nil
}

// setDivisions reads "8" or "[256:1,512:2,1024:4,>:8]". The sizes are MiB and powers of two; sizes below the first have
// its value, ">" is all above the last (CUDAAllocatorConfig::parseRoundUpPower2Divisions).
func (o *Options) setDivisions(value string) error {
	var out [16]int64
	if !strings.HasPrefix(value, "[") {
		n, err := divisions(value)
		for i := range out {
			out[i] = n
		}
		o.RoundupDivisions = out
		return err
	}
	last, first := 0, true
	for item := range strings.SplitSeq(strings.Trim(value, "[] "), ",") {
		size, count, ok := strings.Cut(item, ":")
		n, err := divisions(strings.TrimSpace(count))
		if !ok || err != nil {
			return fmt.Errorf("%q: want SIZE:DIVISIONS, powers of two", item)
		}
		if size = strings.TrimSpace(size); size == ">" {
			for i := last; i < len(out); i++ {
				out[i] = n
			}
			continue
		}
		mb, err := strconv.ParseInt(size, 10, 64)
		if err != nil || mb <= 0 || mb&(mb-1) != 0 {
			return fmt.Errorf("%q: the size must be a power of two, in MiB", item)
		}
		i := min(bits.Len64(uint64(mb))-1, len(out)-1)
		for j := 0; first && j < i; j++ {
			out[j] = n
		}
		out[i], last, first = n, i+1, false
	}
	o.RoundupDivisions = out
	return nil
}

func divisions(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<30 || n&(n-1) != 0 {
		return 0, fmt.Errorf("%q is not a power of two", s)
	}
	return n, nil
}
