"""What the agent writes: ring files, the records in them, texts with their secrets hidden."""
