"""Content of Codelia's confirm request (codelia.md 8): a value, ready for `ui.confirm.request`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ledger.core.characters import code_of, is_visible
from ledger.core.policy import Evaluation
from ledger.policy.codelia.rule import SHELL, SKILL, canonical, normalise, skills_of
from ledger.policy.inputs import command_of
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import spellings

DANGEROUS: Final[dict[str, str]] = {
    "removes files": "rm rmdir unlink shred truncate wipe srm",
    "writes devices and file systems": "dd mkfs mkswap fdisk sfdisk parted wipefs mount umount losetup cryptsetup",
    "runs as another user": "sudo su doas pkexec runuser",
    "changes permissions or users": "chmod chown chgrp setfacl chattr visudo passwd useradd userdel usermod groupmod",
    "stops processes or services": "kill pkill killall shutdown reboot halt poweroff systemctl service launchctl init",
    "runs later or on another machine": "crontab at batch ssh scp sftp rsync nc ncat socat telnet",
    "runs its arguments": "eval exec source xargs sh bash zsh dash ksh fish",
    "changes the network": "iptables ip6tables nft ufw ip ifconfig route",
    "publishes": "npm publish|pnpm publish|yarn publish|cargo publish|twine upload|gh release|docker push",
    "rewrites or discards work": (
        "git push|git reset|git clean|git restore|git checkout|git rebase|git filter-branch|git rm|git update-ref"
    ),
    "changes shared resources": (
        "docker rm|docker rmi|docker system|docker volume|kubectl delete|kubectl apply|kubectl drain|helm uninstall"
        "|terraform apply|terraform destroy|gh repo|gh api"
    ),
}
"""Commands by the reason for the mark: single words, or two-word commands between `|`."""


def _entries(text: str) -> list[tuple[str, ...]]:
    if "|" in text:
        return [tuple(command.split()) for command in text.split("|")]
    return [(word,) for word in text.split()]


_PREFIXES: Final = frozenset(entry for text in DANGEROUS.values() for entry in _entries(text))


def is_dangerous(command: str) -> bool:
    """Return whether any command that the line would run, at any depth and behind any wrapper, is in the table.

    Only shown to a person; no verdict depends on it.
    """
    return any(
        spelling.words[:1] in _PREFIXES or spelling.words[:2] in _PREFIXES
        for found in analyse(command).commands
        for spelling in spellings(found)
    )


PREVIEW_RULES_MAX: Final = 5
INPUT_CHARS_MAX: Final = 500

_PICTURES: Final = 0x2400  # Unicode has a picture of the control character n at this code point plus n
_DELETE: Final = 0x7F
_DELETE_PICTURE: Final = "\u2421"

DangerLevel = Literal["normal", "danger"]


class ConfirmRequest(msgspec.Struct, frozen=True):
    """The members of `ui.confirm.request`, and the rules that "remember" would store, each as one line of JSON.

    `reason` is the reason for asking; it is not a member of the request.
    """

    title: str
    message: str
    danger_level: DangerLevel
    remember: tuple[str, ...] = ()
    reason: str | None = None
    confirm_label: str = "Allow"
    cancel_label: str = "Deny"
    allow_remember: bool = True
    allow_reason: bool = True


def confirm_request(tool: str, value: Any, evaluation: Evaluation) -> ConfirmRequest:
    """Return the confirm request for an evaluated call of a tool with this input."""
    tool = canonical(tool)
    command = command_of(value) if tool == SHELL else None
    if command is not None:
        return confirm_command(command, evaluation.always, evaluation.reason)
    return confirm_call(tool, value, evaluation.always, evaluation.reason)


def confirm_command(command: str, always: Sequence[str], reason: str | None) -> ConfirmRequest:
    """Return the request with the normalised command (codelia.md 6.1), and the command as written if it differs."""
    text = normalise(command)
    message = visible(text)
    if text != command:
        message += f"\n\nAs written:\n{visible(command)}"
    level: DangerLevel = "danger" if is_dangerous(command) else "normal"
    return _request("Run command?", message, level, always, reason)


def confirm_call(tool: str, value: Any, always: Sequence[str], reason: str | None) -> ConfirmRequest:
    """Return the request with the tool's name and its main input."""
    if tool == SKILL:
        return _request("Load skill?", visible(_skill(value)), "normal", always, reason)
    title = "Run command?" if tool == SHELL else "Run tool?"
    return _request(title, visible(_described(tool, value)), "normal", always, reason)


def _request(title: str, message: str, level: DangerLevel, always: Sequence[str], reason: str | None) -> ConfirmRequest:
    return ConfirmRequest(title, message + _preview(always), level, tuple(always), reason, allow_remember=bool(always))


def _preview(always: Sequence[str]) -> str:
    if not always:
        return ""
    lines = [f"- {_shown(json.loads(rule))}" for rule in always[:PREVIEW_RULES_MAX]]
    if len(always) > PREVIEW_RULES_MAX:
        lines.append(f"- ...and {len(always) - PREVIEW_RULES_MAX} more")
    return "\n\nRemember (don't ask again):\n" + "\n".join(lines)


def _shown(rule: Mapping[str, str]) -> str:
    scope = rule.get("command") or rule.get("command_glob") or rule.get("skill_name")
    return visible(f"{rule['tool']}: {scope}" if scope else rule["tool"])


def _skill(value: Any) -> str:
    named, led = skills_of(value)
    path = _text(value, "path")
    if named and led and named != led:
        return f"{named} (from {path})"
    return named or led or path or f"{SKILL} {_compact(value)}"


def _described(tool: str, value: Any) -> str:
    """Return the tool and the most important part of its input, in Codelia's words if it has some."""
    path = _text(value, "file_path") or "(unknown path)"
    if tool == "write":
        return f"write {path} ({len(_text(value, 'content').encode('utf-8', 'surrogatepass'))} bytes)"
    if tool == "edit":
        return f"edit {path} (match={_text(value, 'match_mode') or 'auto'})"
    if tool == "apply_patch":
        patch = _text(value, "patch")
        count = patch.count("\n") + 1 if patch else 0
        return f"apply_patch ({count} line{'' if count == 1 else 's'})"
    if tool == "view_image":
        return f"view_image {path}"
    if tool == "webfetch":
        return f"webfetch {_text(value, 'url') or '(unknown url)'} ({_text(value, 'output_format') or 'markdown'})"
    return f"{tool} {_compact(value)}" if value else tool


def _text(value: Any, member: str) -> str:
    text = value.get(member) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else ""


def _compact(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= INPUT_CHARS_MAX else text[:INPUT_CHARS_MAX] + "…"


def visible(text: str) -> str:
    """Replace every invisible character of a text, line ends included, by its picture or its name.

    So an agent's text cannot imitate a line of the request.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    code = ord(char)
    if code < ord(" "):
        return chr(_PICTURES + code)
    if code == _DELETE:
        return _DELETE_PICTURE
    return char if is_visible(char) else f"<{code_of(char)}>"
