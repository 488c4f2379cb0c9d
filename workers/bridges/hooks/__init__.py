"""What agents call before a tool runs. A hook is a process for every call: only `json` and a raw socket are imported."""
