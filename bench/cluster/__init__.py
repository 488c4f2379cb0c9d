"""The load of a cluster's primaries, and what one more of them adds: `python -m bench.cluster`."""
