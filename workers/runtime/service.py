"""A service of this user that keeps `up` running after a reboot: a systemd user unit, or a launchd agent.

It has the options of `up` as they were when it was made. A server's URL, which may hold a password, stands in a file of
its own (0600) that `PERMISSION_LEDGER_URL_FILE` names, and in no unit.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ledger.core.errors import SetupError
from ledger.core.regular_files import private_file
from ledger.stores.embedded.folder import open_folder
from workers.runtime.background import LOG
from workers.runtime.children import own_command, own_environment
from workers.runtime.place import LedgerPlace

NAME: Final = "permission-ledger"
URL_FILE: Final = "service-url"

_PASSED_ON: Final = (
    "PATH",
    "PYTHONPATH",
    "PERMISSION_LEDGER_CONFIG",
    "PERMISSION_LEDGER_FOLDS_MB",
    "PERMISSION_LEDGER_MASKS",
    "PERMISSION_LEDGER_SEARCH",
    "PERMISSION_LEDGER_SERVER",
    "XDG_CONFIG_HOME",
)
"""The variables of `up` that stand in the unit; none of them is a secret."""

LINGER: Final = (
    "it starts when you log in; for a start at boot without a login: `loginctl enable-linger`"
    if sys.platform != "darwin"
    else "it starts when you log in"
)


def path_of_unit() -> Path | None:
    """Return the path of the service's file; None where neither systemd nor launchd works for this user."""
    if shutil.which("systemctl") and _run("systemctl", "--user", "show-environment", check=False):
        config = os.environ.get("XDG_CONFIG_HOME")
        folder = Path(config) if config else Path.home() / ".config"
        return folder / "systemd" / "user" / f"{NAME}.service"
    if shutil.which("launchctl"):
        return Path.home() / "Library" / "LaunchAgents" / f"{NAME}.plist"
    return None


def installed() -> Path | None:
    """Return the service's file; None if none is installed."""
    path = path_of_unit()
    return path if path is not None and path.exists() else None


def write(place: LedgerPlace, words: Sequence[str]) -> Path:
    """Write the service's file, which runs `up` with these words. Raises SetupError, EmbeddedServerError."""
    path, folder = path_of_unit(), place.data_folder
    command = own_command("up", "--started-by", "service", *words)
    open_folder(folder)
    environment = _environment(place)
    if path is None:
        line = shlex.join(["env", *(f"{name}={value}" for name, value in environment.items()), *own_command("up")])
        raise SetupError(
            "no systemd of this user and no launchd was found",
            hint=f"have this run when the machine starts, for example as `@reboot` in `crontab -e`: "
            f"{line} --detach {shlex.join(words)}".rstrip(),
        )
    text = (unit if path.suffix == ".service" else agent)(command, environment, folder / LOG)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with private_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise SetupError(f"`{path}` cannot be written: {error.strerror}", hint="change its folder's mode") from error
    return path


def start(path: Path) -> None:
    """Start the service of this file, now and after each reboot. Raises SetupError."""
    if path.suffix == ".service":
        _run("systemctl", "--user", "daemon-reload")
        _run("systemctl", "--user", "enable", f"{NAME}.service")
        _run("systemctl", "--user", "restart", f"{NAME}.service")
    else:
        _run("launchctl", "bootout", f"gui/{os.getuid()}/{NAME}", check=False)
        _run("launchctl", "bootstrap", f"gui/{os.getuid()}", str(path))


def uninstall(place: LedgerPlace) -> Path | None:
    """Stop and remove the service; return its file, None without one. Raises SetupError."""
    path = installed()
    if path is None:
        return None
    if path.suffix == ".service":
        _run("systemctl", "--user", "disable", "--now", f"{NAME}.service")
    else:
        _run("launchctl", "bootout", f"gui/{os.getuid()}/{NAME}", check=False)
    path.unlink(missing_ok=True)
    (place.data_folder / URL_FILE).unlink(missing_ok=True)
    if path.suffix == ".service":
        _run("systemctl", "--user", "daemon-reload")
    return path


def _environment(place: LedgerPlace) -> dict[str, str]:
    ours = own_environment()
    kept = {name: ours[name] for name in _PASSED_ON if ours.get(name)}
    kept["PERMISSION_LEDGER_HOME"] = str(place.data_folder)
    if place.folder is None:
        file = place.data_folder / URL_FILE
        with private_file(file) as written:
            written.write(f"{place.url}\n".encode())
        kept["PERMISSION_LEDGER_URL_FILE"] = str(file)
    return kept


def unit(command: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Return the text of a systemd user unit.

    Only the main process gets the signal to end: it ends its workers itself, and an embedded server that others use
    stays for them.
    """
    program, *words = command
    start = " ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in words)])
    settings = [f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()]
    output = f"append:{_plain(str(log))}"
    return "\n".join(
        [
            "# Written by `permission-ledger up --service`; `permission-ledger down --service` removes it.",
            "[Unit]",
            "Description=Permissions of coding agents: inbox, deadlines, views and search",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            f"ExecStart={start}",
            *settings,
            "Restart=on-failure",
            "RestartSec=5",
            "KillMode=process",
            "TimeoutStopSec=60",
            "UMask=0077",
            f"StandardOutput={output}",
            f"StandardError={output}",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
    )


def _quoted(text: str) -> str:
    """Return a word for a unit file: quotes, backslashes and specifiers (`%`) mean themselves."""
    escaped = _plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain(text: str) -> str:
    if any(not character.isprintable() for character in text):
        raise SetupError(f"`{text!r}` cannot stand in a unit file", hint="name a path without control characters")
    return text.replace("%", "%%")


def agent(command: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Return the text of a launchd agent."""
    return plistlib.dumps(
        {
            "Label": NAME,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            # Started again after a failure, and not after `down`.
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
            "Umask": 0o077,
        }
    ).decode()


def _run(*words: str, check: bool = True) -> bool:
    """Run a service manager's command; return whether it worked. Raises SetupError."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        told, worked = str(error), False
    else:
        told, worked = done.stderr.strip(), done.returncode == 0
    if check and not worked:
        raise SetupError(
            f"`{shlex.join(words)}` failed: {told}", hint="`permission-ledger up --detach` needs no service"
        )
    return worked
