"""Reading of rule files of any dialect; an unreadable file is an error, never a policy without rules."""

from __future__ import annotations

from ledger.core.limits import POLICY_BYTES
from ledger.core.regular_files import open_regular
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, JsonSyntaxError, parse


def read_content(file: str) -> bytes:
    """Return the bytes of a regular file. Raises PolicyError for one that is missing, unreadable or too large."""
    try:
        with open_regular(file) as stream:
            content = stream.read(POLICY_BYTES + 1)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{shown(file)} cannot be read: {cause_of(error)}", file=file) from error
    if len(content) > POLICY_BYTES:
        raise PolicyError(f"{shown(file)} is larger than {POLICY_BYTES} bytes", file=file)
    return content


def read_text(file: str, content: bytes | None = None) -> str:
    """Return the text of a file, or of the `content` that was read from it already. Raises PolicyError."""
    content = read_content(file) if content is None else content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError(f"{shown(file)} line {line}: the file is not UTF-8", file=file, line=line) from None


def parse_document(file: str, text: str, *, comments: bool) -> Document:
    """Return the value of a file, with lines. Raises PolicyError with file and line."""
    try:
        return parse(text, comments=comments)
    except JsonSyntaxError as problem:
        text = f"{shown(file)} line {problem.line}: {problem.text}"
        raise PolicyError(text, file=file, line=problem.line) from None


def cause_of(error: OSError | ValueError) -> str:
    """Return the operating system's reason for an error."""
    return (getattr(error, "strerror", None) or str(error)).lower()
