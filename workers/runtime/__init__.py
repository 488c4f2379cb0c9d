"""What every long-running process uses: supervision, logs, locations."""
