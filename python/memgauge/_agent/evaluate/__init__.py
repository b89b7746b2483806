"""Running code that a client sent."""
