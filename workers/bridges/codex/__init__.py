"""Codex: `codex app-server` on stdio."""
