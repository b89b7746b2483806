package node

import "testing"

type vars map[string]string

// TestJobFromEnv: what launchers really set, as `env` shows it inside of a job of theirs.
func TestJobFromEnv(t *testing.T) {
	for _, c := range []struct {
		name string
		env  vars
		want Job
	}{
		{"nothing", nil, Job{}},
		{"our own word comes first", vars{"MEMGAUGE_JOB": "mine", "SLURM_JOB_ID": "7", "SLURM_NODEID": "3"},
			Job{Name: "mine", Node: 3}},
		{"a torchrun worker", vars{"TORCHELASTIC_RUN_ID": "llama-7", "GROUP_RANK": "2", "GROUP_WORLD_SIZE": "4",
			"RANK": "17", "LOCAL_RANK": "1", "WORLD_SIZE": "32", "LOCAL_WORLD_SIZE": "8"},
			Job{Name: "llama-7", Node: 2, World: 32}},
		{"torchrun without an id", vars{"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0", "WORLD_SIZE": "8"},
			Job{World: 8}},
		{"torchrun by its environment", vars{"PET_RDZV_ID": "job9", "PET_NODE_RANK": "1", "PET_NNODES": "2",
			"PET_NPROC_PER_NODE": "4"}, Job{Name: "job9", Node: 1, World: 8}},
		{"torchrun, elastic", vars{"PET_RDZV_ID": "job9", "PET_NNODES": "2:4", "PET_NPROC_PER_NODE": "gpu"},
			Job{Name: "job9"}},
		{"srun", vars{"SLURM_JOB_ID": "991", "SLURM_JOB_NAME": "llama", "SLURM_NODEID": "5", "SLURM_PROCID": "40",
			"SLURM_NTASKS": "64", "SLURM_JOB_NUM_NODES": "8"}, Job{Name: "llama-991", Node: 5, World: 64}},
		{"a task of a Slurm array", vars{"SLURM_JOB_ID": "1003", "SLURM_ARRAY_JOB_ID": "991",
			"SLURM_ARRAY_TASK_ID": "12", "SLURM_JOB_NAME": "sweep", "SLURM_NODEID": "0"}, Job{Name: "sweep-1003"}},
		{"torchrun below srun: one task a node, and the ranks are torchrun's", vars{"SLURM_JOB_ID": "991",
			"SLURM_JOB_NAME": "llama", "SLURM_NODEID": "1", "SLURM_NTASKS": "2", "WORLD_SIZE": "16", "GROUP_RANK": "1",
			"TORCHELASTIC_RUN_ID": "991"}, Job{Name: "llama-991", Node: 1, World: 16}},
		{"an indexed job of Kubernetes", vars{"JOB_NAME": "llama", "JOB_COMPLETION_INDEX": "3",
			"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Job{Name: "llama", Node: 3}},
		{"a PyTorchJob of Kubernetes: its RANK is the node's", vars{"PET_NNODES": "4", "PET_NODE_RANK": "2",
			"PET_NPROC_PER_NODE": "8", "PET_RDZV_ID": "llama", "WORLD_SIZE": "4", "RANK": "2",
			"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Job{Name: "llama", Node: 2, World: 32}},
		{"numbers that are none", vars{"GROUP_RANK": "-1", "WORLD_SIZE": "many", "JOB_NAME": "j"},
			Job{Name: "j"}},
	} {
		if got := JobFromEnv(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestJobOfRank: ranks of one job on several machines say the same job; those of one machine say none, and the
// session's name stays.
func TestJobOfRank(t *testing.T) {
	for _, c := range []struct {
		name string
		env  vars
		want string // "": none
	}{
		{"one machine", vars{"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "localhost",
			"MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "f81d4fae"}, ""},
		{"torchrun with an id", vars{"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8",
			"TORCHELASTIC_RUN_ID": "llama-7", "MASTER_ADDR": "gpu-1", "MASTER_PORT": "29400"}, "llama-7"},
		{"torchrun without one", vars{"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8",
			"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}, "job-10.0.0.1-29400"},
		{"srun", vars{"SLURM_PROCID": "3", "SLURM_NNODES": "2", "SLURM_JOB_ID": "991"}, "991"},
		{"no rank", vars{"WORLD_SIZE": "16", "MASTER_ADDR": "gpu-1"}, ""},
	} {
		j, ok := JobOfRank(func(name string) string { return c.env[name] })
		if j.Name != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s: %+v, %v", c.name, j, ok)
		}
	}
}
