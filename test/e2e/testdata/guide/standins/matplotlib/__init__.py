"""In place of matplotlib, for the guide's story: it keeps each figure until it is closed, as pyplot does."""
