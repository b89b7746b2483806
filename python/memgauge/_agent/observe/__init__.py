"""A training seen from within torch: its steps, and now and then its modules."""
