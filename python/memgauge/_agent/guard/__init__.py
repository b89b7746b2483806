"""The guard: acts on a training's memory by a policy, at the ends of steps. docs/guard.md"""
