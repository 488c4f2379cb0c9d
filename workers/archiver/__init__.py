"""The archiver: seals sessions that are closed or idle, at intervals."""
