"""Analysis of shell lines, and the hardened evaluation that all dialects share.

`analyse` decides if a line is plain and finds every command at any depth. `hardened` combines the analysis with a
dialect's `CommandRules` (`model`). `parse.source_commands` returns the commands that OpenCode's patterns are matched against.
"""
