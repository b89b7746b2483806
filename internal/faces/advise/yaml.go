package advise

import "fmt"

// YAML is safe_training.yaml: the keys of the guide's example, with values for this machine, each with its reason.
func (v Values) YAML(why string) string {
	return fmt.Sprintf(`# safe_training.yaml, written by memgauge advise: %s.
# The keys are those of the leak guide; the training script reads them.
training:
  batch_size: %-17d # by the free memory; memgauge estimate says what the model takes
  num_workers: %-16d # by cores, and by host memory
  precision: %-18d # %s
  gradient_clip_val: 0.5         # the guide's
  accumulate_grad_batches: %d     # keeps an effective batch of %d
  max_epochs: 50                 # the guide's
  check_val_every_n_epoch: %d     # validation holds outputs: seldom is safer
model:
  d_model: %d
  num_heads: %d
  num_layers: %d
  token_type: "patch"
`, why, v.BatchSize, v.Workers, v.Precision, precisionWhy(v.Precision), v.Accumulate, v.BatchSize*v.Accumulate,
		v.EveryNEpoch, v.Width, v.Heads, v.Layers)
}

func precisionWhy(bits int) string {
	if bits == 16 {
		return "mixed precision: activations take half"
	}
	return "no GPU was found: 16 bits save little on a CPU"
}
