"""OpenCode's own HTTP surface for permissions, so that its clients can list and answer pending requests."""
