"""Event streams over a store: append, fold, read, follow, verify."""
