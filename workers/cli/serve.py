"""`serve`: the gateway as a process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import click

from ledger import Timeouts
from ledger.core.timeouts import RunLimits
from workers.cli.base import command
from workers.cli.deadlines import with_deadlines, with_run_limits
from workers.cli.long_running import Logs, log_options, rules_option, run_logged
from workers.cli.output import CommandOutput

FILE: Final = click.Path(dir_okay=False, path_type=Path)


@command(
    examples=(
        "permission-ledger serve",
        "permission-ledger serve --rules opencode.json --rules claude=.claude/settings.json",
        "permission-ledger serve --listen 0.0.0.0:8420 --public-url https://permissions.example.com",
        "permission-ledger serve --listen unix:/run/permission-ledger/gateway.sock",
    ),
    with_json=False,
)
@click.option(
    "--listen",
    "addresses",
    metavar="ADDRESS",
    multiple=True,
    help="HOST:PORT or unix:PATH; repeatable (default: 127.0.0.1:8420, and gateway.sock in the data folder).",
)
@click.option("--public-url", metavar="URL", help="The address that browsers use, if it differs (behind TLS).")
@click.option(
    "--host",
    "hosts",
    metavar="NAME|URL",
    multiple=True,
    help="Another name by which it is called; as a URL, also by browsers. Repeatable.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="ADDRESS",
    multiple=True,
    help="Trust X-Forwarded-For and -Proto from this address or network; repeatable (default: from nobody).",
)
@rules_option
@with_deadlines
@with_run_limits
@click.option(
    "--quota",
    "quotas",
    metavar="NAME=NUMBER",
    multiple=True,
    envvar="PERMISSION_LEDGER_QUOTAS",
    help="Limits of one token: pending, pending-bytes, streams, sessions-an-hour; repeatable.",
)
@click.option(
    "--reads-kept",
    metavar="DURATION",
    envvar="PERMISSION_LEDGER_READS_KEPT",
    help="Retention of the records that `access` lists (default: 90d).",
)
@click.option("--no-tokens", is_flag=True, help="Let everybody on this machine do everything. Never on a network.")
@click.option(
    "--no-masks", is_flag=True, help="Store and show secrets in commands as they are; the log then holds them for good."
)
@click.option(
    "--link-answers",
    type=click.Choice(["once", "session", "always"]),
    default="once",
    envvar="PERMISSION_LEDGER_LINK_ANSWERS",
    show_envvar=True,
    help="The longest-lasting allow that links in notifications may give (default: once).",
)
@click.option(
    "--no-names-in-metrics",
    is_flag=True,
    envvar="PERMISSION_LEDGER_NO_NAMES_IN_METRICS",
    show_envvar=True,
    help="Count answers in /metrics without the names of who gave them.",
)
@click.option("--oidc", metavar="FILE", type=FILE, help="People sign in at an OpenID Connect provider; off without it.")
@click.option("--proxy-sign-in", "proxy", metavar="FILE", type=FILE, help="People sign in at a proxy in front.")
@click.option(
    "--push-contact",
    metavar="EMAIL",
    envvar="PERMISSION_LEDGER_PUSH_CONTACT",
    help="Let people enable push messages; the address is for operators of push services. Needs the extra `push`.",
)
@click.option(
    "--push-service",
    "push_services",
    metavar="HOST",
    multiple=True,
    envvar="PERMISSION_LEDGER_PUSH_SERVICES",
    help="Another push service that may be called, HOST or HOST:PORT; repeatable (default: the browsers' own).",
)
@log_options
@click.option("--inherit", type=int, multiple=True, hidden=True, help="Listen on this open socket.")
@click.option("--with-parent", type=int, hidden=True, help="End when this process is not the parent any more.")
def serve(
    *,
    url: str | None,
    addresses: Sequence[str],
    public_url: str | None,
    hosts: Sequence[str],
    trusted_proxies: Sequence[str],
    rules: Sequence[str],
    attended: str | None,
    unattended: str | None,
    approval_lifetime: str | None,
    claim_timeout: str | None,
    quotas: Sequence[str],
    reads_kept: str | None,
    no_tokens: bool,
    no_masks: bool,
    link_answers: Literal["once", "session", "always"],
    no_names_in_metrics: bool,
    oidc: Path | None,
    proxy: Path | None,
    push_contact: str | None,
    push_services: Sequence[str],
    log_level: str,
    log_format: str,
    with_parent: int | None,
    inherit: Sequence[int],
) -> int | None:
    """Serve the ledger over HTTP: an inbox for people, an API for agents. Any number may run on one ledger.

    Prints the address and a link that signs one browser in, once. The deadlines are those of sessions that state none.
    """
    from workers.gateway.command import ServeOptions, serve_until_stopped  # noqa: PLC0415 - slow to import

    wanted = ServeOptions(
        url=url,
        addresses=tuple(addresses),
        public_url=public_url,
        hosts=tuple(hosts),
        trusted_proxies=tuple(trusted_proxies),
        rules=tuple(rules),
        timeouts=Timeouts().stated({"attended": attended, "unattended": unattended}, "--{}"),
        limits=RunLimits.read(approval_lifetime, claim_timeout, are_options=True),
        quotas=tuple(quotas),
        reads_kept=reads_kept,
        no_tokens=no_tokens,
        masks=False if no_masks else None,
        link_answers=link_answers,
        names_in_metrics=not no_names_in_metrics,
        oidc=oidc,
        proxy=proxy,
        push_contact=push_contact,
        push_services=tuple(push_services),
        parent=with_parent,
        inherited=tuple(inherit),
    )
    output = CommandOutput()
    return run_logged(
        "gateway",
        lambda: serve_until_stopped(wanted, output.line),
        Logs(log_level, log_format),
        parent=with_parent,
    )
