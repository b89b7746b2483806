"""Who holds the memory: a walk over the program's objects."""
