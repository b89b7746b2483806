"""What runs in every observed process. docs/agent.md says which module is what, and which may import which."""
