"""Files and folders that affect what later commands do; writing them always needs approval."""

from __future__ import annotations

from typing import Final

PROTECTED_FOLDERS: Final = frozenset(
    {
        ".betcode", ".brutus", ".cargo", ".claude", ".codelia", ".codex", ".cursor", ".devcontainer", ".gemini", ".git",
        ".hg", ".husky", ".idea", ".opencode", ".ssh", ".svn", ".vscode", ".yarn",
    }
)  # fmt: skip
PROTECTED_FILES: Final = frozenset(
    {
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zprofile", ".zshenv", ".zlogin",
        ".profile", ".gitconfig", ".gitmodules", ".ripgreprc", ".mcp.json", ".pre-commit-config.yaml", ".lefthook.yml",
        "lefthook.yml", ".bazelrc", ".bunfig.toml", "bunfig.toml", ".claude.json", ".npmrc", ".yarnrc", ".yarnrc.yml",
        ".envrc", "opencode.json", "opencode.jsonc",
    }
)  # fmt: skip


def is_protected(path: str) -> bool:
    """Return whether a path is one of these files, or in one of these folders; case is ignored."""
    names = path.casefold().split("/")
    return names[-1] in PROTECTED_FILES or not PROTECTED_FOLDERS.isdisjoint(names)
