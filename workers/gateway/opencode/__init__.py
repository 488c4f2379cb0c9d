"""OpenCode's own HTTP surface for permissions, so that its clients can list and answer what waits here."""
