"""Claude Code: between its host and the client on stdio, as hooks, as the SDK's callback and as an MCP tool."""
