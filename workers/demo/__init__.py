"""`demo`: a recorded agent session, played by real processes over a real server, and printed from the log alone."""
