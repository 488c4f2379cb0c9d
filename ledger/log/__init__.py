"""Event streams over a store: append, fold, read, tail, verify."""
