"""Commands with examples in their help, and options of several. Only click is imported: bridges start fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

WHOLE_CHARS: Final = 1000
"""Characters of a sentence in a list of commands: all that it has."""


class DocumentedCommand(click.Command):
    """A command with examples. Every example must parse, which a test checks."""

    def __init__(self, name: str | None, *, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, **settings)
        # Also without the context of a group: click keeps the option of the first context that it sees.
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self.examples = tuple(examples)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence whole, which click would cut in the list of a group."""
        return super().get_short_help_str(max(limit, WHOLE_CHARS))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments, with defaults from the configuration files where the program runs as a whole."""
        if parent is not None and not extra.get("resilient_parsing"):
            path = (*parent.command_path.split()[1:], str(info_name))
            extra.setdefault("default_map", _defaults(path, self, args))
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")


def _defaults(path: tuple[str, ...], command: click.Command, args: Sequence[str]) -> dict[str, Any] | None:
    if path[0] in ("completion", "config", "hook", "init"):
        return None
    from workers.transport.trusted import is_anything_here  # noqa: PLC0415 - hooks need none

    if not is_anything_here():
        return None
    from workers.cli.config_applied import defaults  # noqa: PLC0415 - slow to import, and only files need it

    return defaults(path, command, args)


Decorate = Callable[[Callable[..., Any]], Callable[..., Any]]

_HELP: Final = {
    "--attended": "Time for an answer while somebody is there (60s).",
    "--unattended": "Time for an answer otherwise (7d).",
}

_RUN_HELP: Final = {
    "--approval-lifetime": "Time within which an answered call must begin; later it asks again (default: no limit).",
    "--claim-timeout": "Time after which a claim without a recorded end is ended (default: 1h).",
}


def deadline_options() -> list[click.Parameter]:
    """Return the options as parameters of a command."""
    return [click.Option([name], metavar="DURATION", help=text) for name, text in _HELP.items()]


def adding(*options: Decorate) -> Decorate:
    """Return a decorator that adds options to a command, which stand in this order in its help."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


with_deadlines: Final = adding(*(click.option(name, metavar="DURATION", help=text) for name, text in _HELP.items()))
"""The arguments `attended` and `unattended`, each a text or None."""

with_run_limits: Final = adding(*(click.option(name, metavar="DURATION", help=of) for name, of in _RUN_HELP.items()))
"""The arguments `approval_lifetime` and `claim_timeout`, each a text or None."""

with_gateway: Final = adding(
    click.option(
        "--listen",
        "addresses",
        metavar="ADDRESS",
        multiple=True,
        help="HOST:PORT or unix:PATH; repeatable (default: 127.0.0.1:8420, and gateway.sock in the data folder).",
    ),
    click.option("--public-url", metavar="URL", help="The address that browsers use, if it differs (behind TLS)."),
    click.option(
        "--host",
        "hosts",
        metavar="NAME|URL",
        multiple=True,
        help="Another name by which it is called; as a URL, also by browsers. Repeatable.",
    ),
    click.option(
        "--trusted-proxy",
        "trusted_proxies",
        metavar="ADDRESS",
        multiple=True,
        help="Trust X-Forwarded-For and -Proto from this address or network; repeatable (default: from nobody).",
    ),
    click.option(
        "--rules",
        multiple=True,
        metavar="[DIALECT=]FILE",
        help="The rules for agents that may not bring their own; one file a dialect (default dialect: opencode).",
    ),
    with_deadlines,
    with_run_limits,
    click.option(
        "--quota",
        "quotas",
        metavar="NAME=NUMBER",
        multiple=True,
        envvar="PERMISSION_LEDGER_QUOTAS",
        help="Limits of one token: pending, pending-bytes, streams, sessions-an-hour; repeatable.",
    ),
    click.option(
        "--reads-kept",
        metavar="DURATION",
        envvar="PERMISSION_LEDGER_READS_KEPT",
        help="Retention of the records that `access` lists (default: 90d).",
    ),
    click.option("--no-tokens", is_flag=True, help="Let everybody on this machine do everything. Never on a network."),
    click.option(
        "--no-masks",
        is_flag=True,
        help="Store and show secrets in commands as they are; the log then holds them for good.",
    ),
    click.option(
        "--link-answers",
        type=click.Choice(["once", "session", "always"]),
        default="once",
        envvar="PERMISSION_LEDGER_LINK_ANSWERS",
        show_envvar=True,
        help="The longest-lasting allow that links in notifications may give (default: once).",
    ),
    click.option(
        "--no-names-in-metrics",
        is_flag=True,
        envvar="PERMISSION_LEDGER_NO_NAMES_IN_METRICS",
        show_envvar=True,
        help="Count answers in /metrics without the names of who gave them.",
    ),
    click.option(
        "--oidc",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="People sign in at an OpenID Connect provider; off without it.",
    ),
    click.option(
        "--proxy-sign-in",
        "proxy",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="People sign in at a proxy in front.",
    ),
    click.option(
        "--push-contact",
        metavar="EMAIL",
        envvar="PERMISSION_LEDGER_PUSH_CONTACT",
        help="Let people enable push messages; the address is for operators of push services. Needs the extra `push`.",
    ),
    click.option(
        "--push-service",
        "push_services",
        metavar="HOST",
        multiple=True,
        envvar="PERMISSION_LEDGER_PUSH_SERVICES",
        help="Another push service that may be called, HOST or HOST:PORT; repeatable (default: the browsers' own).",
    ),
)
"""The options of a gateway, for `serve` and `up`: the arguments of `workers.gateway.command.read_options`."""

index_file_option: Final = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The index (default: PERMISSION_LEDGER_SEARCH, else one for each ledger in the data folder).",
)

JOBS_MAX: Final = 64

with_jobs: Final[Decorate] = click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    metavar="N",
    help="Processes that share the work (default: one a core, as long as each has 2,000 streams).",
)
