"""`demo`: a recorded agent session, played by real processes over a real server, and told from the log alone."""
