"""Commands that a confirm request marks as dangerous: a table of programs, with or without a subcommand."""

from __future__ import annotations

from typing import Final

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
