package store

import "github.com/memgauge/memgauge/internal/model"

func tensorColumns(s *sheet, rows []model.TensorGroup) {
	put(s, rows, func(r *model.TensorGroup) int64 { return r.Time })
	put(s, rows, func(r *model.TensorGroup) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.TensorGroup) int32 { return r.Rank })
	put(s, rows, func(r *model.TensorGroup) int64 { return r.Census })
	putSize(s, rows, func(r *model.TensorGroup) int64 { return r.Step })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Shape })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Dtype })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Device })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Role })
	put(s, rows, func(r *model.TensorGroup) int64 { return r.Count })
	put(s, rows, func(r *model.TensorGroup) int64 { return r.Bytes })
	putSize(s, rows, func(r *model.TensorGroup) int64 { return r.Fresh })
	putSize(s, rows, func(r *model.TensorGroup) int64 { return r.OldestStep })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Site })
	putText(s, rows, func(r *model.TensorGroup) string { return r.Holder })
	put(s, rows, func(r *model.TensorGroup) bool { return r.Estimated })
}

func objectColumns(s *sheet, rows []model.ObjectGroup) {
	put(s, rows, func(r *model.ObjectGroup) int64 { return r.Time })
	put(s, rows, func(r *model.ObjectGroup) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.ObjectGroup) int32 { return r.Rank })
	put(s, rows, func(r *model.ObjectGroup) int64 { return r.Census })
	putSize(s, rows, func(r *model.ObjectGroup) int64 { return r.Step })
	putText(s, rows, func(r *model.ObjectGroup) string { return r.Evidence })
	putText(s, rows, func(r *model.ObjectGroup) string { return r.Type })
	put(s, rows, func(r *model.ObjectGroup) int64 { return r.Count })
	putSize(s, rows, func(r *model.ObjectGroup) int64 { return r.Delta })
	putSize(s, rows, func(r *model.ObjectGroup) int64 { return r.Length })
	putSize(s, rows, func(r *model.ObjectGroup) int64 { return r.Bytes })
	putText(s, rows, func(r *model.ObjectGroup) string { return r.Holder })
	putText(s, rows, func(r *model.ObjectGroup) string { return r.Site })
	putText(s, rows, func(r *model.ObjectGroup) string { return r.Detail })
	put(s, rows, func(r *model.ObjectGroup) bool { return r.Estimated })
}
