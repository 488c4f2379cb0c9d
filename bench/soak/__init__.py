"""A day of work with kills, faster than in life, and what it leaves behind: `python -m bench.soak`."""
