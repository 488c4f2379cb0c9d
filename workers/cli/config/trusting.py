"""`config trust` and `config untrust`: the user's decision to use a project's file, as it is now."""

from __future__ import annotations

from pathlib import Path

import click

from workers.cli.base import LedgerCommand, json_option
from workers.cli.config import places
from workers.cli.config.files import ConfigFileError, SettingsFile, check_all
from workers.cli.config.trust import at_its_place, load, named_files, project_file, record_of, require_outside, save
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk

PATH = click.Path(path_type=Path)


@click.command(
    cls=LedgerCommand,
    examples=(
        "permission-ledger config trust",
        "permission-ledger config trust ~/shop/permission-ledger.toml --yes",
    ),
)
@click.argument("path", type=PATH, default=Path(), metavar="[PATH]")
@click.option("--yes", is_flag=True, help="Trust it without asking.")
def trust(*, path: Path, yes: bool, as_json: bool) -> int | None:
    """Show a project's file, and use it from now on while its content stays the same.

    The file's path and the SHA-256 of its content are written to `trusted.json` in your own configuration folder. The files of rules and
    notifications that it names count as its content. After a change of any of them it is not used until you trust it again.
    """
    file = project_file(path)
    require_outside(file.path)
    check_all(file)
    output = CommandOutput(as_json=as_json)
    records, record = load(), record_of(file)
    if records.get(str(file.path)) == record:
        _say(output, file, "already trusted")
        return None
    for line in (f"{file.path}:", *(f"  {line}" for line in file.content.decode().splitlines())):
        talk(line)
    for named, digest in record.named.items():
        talk(f"{named}: {digest}")
    if not yes and not click.confirm("Use these settings from now on?", default=False, err=True):
        talk("nothing was written")
        return Exit.OUR_FAULT
    if project_file(path).digest != file.digest:
        raise ConfigFileError(f"`{file.path}` was changed meanwhile", hint="read it again")
    save({**records, str(file.path): record})
    _say(output, file, "trusted")
    return None


@click.command(
    cls=LedgerCommand,
    examples=("permission-ledger config untrust", "permission-ledger config untrust ~/shop/permission-ledger.toml"),
)
@click.argument("path", type=PATH, default=Path(), metavar="[PATH]")
def untrust(*, path: Path, as_json: bool) -> None:
    """Use a project's file no more. The file itself stays; it may be gone already."""
    wanted = at_its_place(path if path.name == places.FILE else path / places.FILE)
    records = load()
    if records.pop(str(wanted), None) is None:
        raise ConfigFileError(f"`{wanted}` is not trusted")
    save(records)
    output = CommandOutput(as_json=as_json)
    if as_json:
        output.row({"file": str(wanted), "state": "not trusted"})
    else:
        output.line(f"{wanted}: not trusted")


def _say(output: CommandOutput, file: SettingsFile, state: str) -> None:
    if output.as_json:
        output.row({"file": str(file.path), "state": state, "sha256": file.digest, "names": named_files(file)})
    else:
        output.line(f"{file.path}: {state}")


for _command in (trust, untrust):
    _command.params.append(json_option())
