"""The hooks that agents run before each tool call. Every call starts a process: it imports only `json` and a socket."""
