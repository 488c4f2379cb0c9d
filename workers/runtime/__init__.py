"""Shared parts of long-running processes: supervision, logs, locations."""
