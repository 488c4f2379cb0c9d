"""The words of a command that identify it: OpenCode's table, 136 entries (opencode.md, "Command Arity System").

The longest entry whose words begin the command applies; a program without an entry counts for one word. Options count
as words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

_ONE_WORD: Final = """
    cat cd chmod chown cp echo env export grep kill killall ln ls mkdir mv ps pwd rm rmdir sleep source tail
    touch unset which
"""

_TWO_WORDS: Final = """
    bazel brew bun cargo cdk cf cmake composer consul crictl deno docker eksctl firebase flyctl git go gradle
    helm heroku hugo ip kind kubectl kustomize make mc minikube mongosh mvn mysql ng npm nvm nx openssl pip
    pipenv pnpm podman poetry psql pulumi pyenv python rake rbenv redis-cli rustup serverless skaffold sls sst
    swift systemctl terraform tmux turbo ufw vault vercel volta wp yarn
"""

_THREE_WORDS: Final = """
    aws az doctl gcloud gh sfdx
"""

# Programs of two words whose second word needs a third.
_SUBCOMMANDS_OF_THREE: Final = {
    "bun": "run x",
    "cargo": "add run",
    "consul": "kv",
    "deno": "task",
    "docker": "builder compose container image network volume",
    "eksctl": "create",
    "git": "config remote stash",
    "ip": "addr link netns route",
    "kind": "create",
    "kubectl": "kustomize rollout",
    "mc": "admin",
    "npm": "exec init run view",
    "openssl": "req x509",
    "pnpm": "dlx exec run",
    "podman": "container image",
    "pulumi": "stack",
    "terraform": "workspace",
    "vault": "auth kv",
    "yarn": "dlx run",
}


def _entries() -> dict[str, int]:
    found = dict.fromkeys(_ONE_WORD.split(), 1) | dict.fromkeys(_TWO_WORDS.split(), 2)
    found |= dict.fromkeys(_THREE_WORDS.split(), 3)
    for program, words in _SUBCOMMANDS_OF_THREE.items():
        found |= {f"{program} {word}": 3 for word in words.split()}
    return found


ARITY: Final[Mapping[str, int]] = MappingProxyType(_entries())
"""Words, joined by one space, and the number of words that are kept of a command that begins with them."""

_ENTRY_WORDS_MAX: Final = 2


def prefix(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify a command; all of them if there are fewer than its entry says."""
    for length in range(min(len(words), _ENTRY_WORDS_MAX), 0, -1):
        arity = ARITY.get(" ".join(words[:length]))
        if arity is not None:
            return tuple(words[:arity])
    return tuple(words[:1])
