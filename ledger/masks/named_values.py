"""Names of secrets, and values under such names that are none: placeholders, types, references, paths. Pure."""

from __future__ import annotations

import re
from typing import Final

from ledger.core.late_patterns import late_pattern

_NAME: Final = late_pattern(
    r"""(?:pass(?:word|wd|phrase|code)|passwd|pwd|secret|token|credentials?|authorization|apikey|api[_ -]?key
    |cookie|(?:access|secret|private|encryption|signing|master|account|subscription|auth|admin|storage|hmac)
     [_ -]?(?:access[_ -]?)?key|(?:(?<![a-z])|(?<=ssh))pass)
    (?:[_ -]?[0-9]{1,2})?""",
    re.IGNORECASE | re.VERBOSE,
)
_KEY: Final = late_pattern(
    r"(?:api|access|secret|private|encryption|signing|master|account|subscription|auth|admin|storage|license|deploy"
    r"|service|session|app|webhook|hmac|cookie|preshared)[_-]?(?:access[_-]?)?"
)
_OPTION: Final = late_pattern(r"--?[A-Za-z][A-Za-z0-9_-]{1,60}")
_MARKER: Final = late_pattern(
    r"(?:next|page|start(?:ing)?|continuation|sync|cursor|resume|end|stop|begin|pad|eos|bos|unk|mask|special"
    r"|cancellation|max|min|total|input|output|num|count)[_. -]?",
    re.IGNORECASE,
)
_NAMES_A_SECRET: Final = ("existing", "existing_", "existing-", "tls", "tls-", "pull", "pull-", "pull_")
_BEFORE_CHARS: Final = 24
_NAME_CHARS: Final = 80

_WORDS: Final = frozenset(
    {
        "access_key", "apikey", "api_key", "api-key", "args", "auth", "authorization", "base64", "basic", "bearer",
        "bool", "boolean", "bytes", "class", "config", "const", "default", "disabled", "dummy", "empty", "enabled",
        "env", "environ", "environment", "example", "existing", "expired", "false", "file", "func", "function",
        "generate", "getpass", "hash", "hidden", "id", "input", "int", "integer", "invalid", "key", "keyring",
        "literal", "masked", "missing", "mock", "name", "new", "nil", "none", "null", "number", "object", "off",
        "old", "optional", "option", "output", "pass", "passphrase", "password", "passwd", "path", "plain",
        "plaintext", "private_key", "prompt", "public", "pwd", "random", "read", "redacted", "removed", "required",
        "return", "revoked", "sample", "secret", "secrets", "secretstr", "self", "set", "some", "static", "stdin",
        "str", "string", "test", "text", "the", "this", "todo", "token", "tokens", "true", "type", "undefined",
        "unknown", "unset", "user", "username", "utf-8", "utf8", "valid", "value", "var", "void", "with", "write",
        "xxx", "yes", "your",
    }
)  # fmt: skip
_PLACEHOLDER: Final = late_pattern(
    r"""[$%<({\[*`@].*                                 # a reference, a placeholder, a file to read
    |[^$<{%]*(?:\$[{(]|\{\{|<[A-Za-z]|%\([a-z]).*       # the same inside
    |(?:\.{1,2}|~)?/[A-Za-z0-9_.~/-]*                   # a path
    |(.)\1*                                             # one character again and again
    |[xX*.•_-]+
    |(?:your|my|insert|enter|put|replace|change|example|sample|dummy|fake|placeholder|redacted)[-_ .][A-Za-z_ .-]+
    |(?:your|my)(?:api)?(?:key|token|secret|password)(?:here)?
    |(?:WORD)(?:(?:\.|->|::)(?:WORD))+(?:[\[(].*)?       # settings.PASSWORD
    |(?:env|file|fd|arn|op|vault|keyring|stdin):.*      # the name of a place
    |(?:\.\*|\[\^|\\[swdSWD]).*                         # a regular expression
    |[A-Za-z_][A-Za-z_0-9.]*\(.*                        # get_token()
    |(?:[A-Za-z]+[_-]){1,5}(?:key|token|secret|password|passwd|name|file|path|id|type|value|ref)s?
    |(?:key|token|secret|password|passwd)[_-][A-Za-z_-]*
    |[0-9]{1,5}
    |(?:id|type|source|name|path|file|key|ref)=.*       # --secret id=npmrc
    |[A-Z]+(?:_[A-Z]+)+                                 # the name of a variable
    |sha(?:1|256|384|512)[:-].*""".replace(
        "WORD", r"_{0,2}[a-z][a-z_]*[0-9]?|[A-Z][A-Z_]*|[a-z]+(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+)+"
    ),
    re.VERBOSE | re.DOTALL,
)
_VALUE_CHARS: Final = 3
_EXAMINED_CHARS: Final = 512


def is_secret_name(name: str) -> bool:
    """Return whether a member or an option of this name holds a secret."""
    if len(name) > _NAME_CHARS:
        return False
    for found in _NAME.finditer(name):
        if found.end() == len(name):
            return not found[0].casefold().startswith("token") or not _is_marker(name, found.start())
    return False


def is_secret_option(word: str) -> bool:
    """Return whether the argument after this one is a secret."""
    return word.startswith("-") and _OPTION.fullmatch(word) is not None and is_secret_name(word.lstrip("-"))


def is_secret_at(lower: str, place: int) -> bool:
    """Return whether the word at a place of a text in lower case is, with what stands before it, a secret's name."""
    if lower.startswith("key", place):
        before = lower[max(0, place - _BEFORE_CHARS) : place]
        return any(found.end() == len(before) for found in _KEY.finditer(before))
    if lower.startswith("secret", place):
        return not lower.endswith(_NAMES_A_SECRET, 0, place)
    return not lower.startswith("token", place) or not _is_marker(lower, place)


def is_plausible(value: str) -> bool:
    """Return whether a value under the name of a secret can be one."""
    if len(value) < _VALUE_CHARS or value.casefold() in _WORDS:
        return False
    return _PLACEHOLDER.fullmatch(value, 0, _EXAMINED_CHARS) is None


def _is_marker(name: str, place: int) -> bool:
    """Return whether what stands before a name makes it a place in a list, or a count."""
    before = name[max(0, place - _BEFORE_CHARS) : place]
    return any(found.end() == len(before) for found in _MARKER.finditer(before))
