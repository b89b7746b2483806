"""The part of memgauge that lives in an observed process. Standard library only; see docs/agent-start.md."""
