"""`bridge`: the commands between an agent and whoever started it. A bridge starts fast: what it needs is imported by it alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, Protocol

import click

from workers.bridges.hook_entries import BOTH, NOT_ASKED, WAYS, hook_words, http_hook_settings, token_in
from workers.bridges.options import BridgeOptions
from workers.bridges.session_ids import new_id
from workers.bridges.settings_file import read_settings
from workers.cli.bridge_options import bridge_command
from workers.cli.installing import (
    CLAUDE,
    CODEX,
    GEMINI,
    QWEN,
    HookedAgent,
    InstallOptions,
    carry_out,
    claude_entries,
    claude_settings,
    codex_config,
    codex_entries,
    install_options,
)
from workers.cli.lazy import LazyGroup
from workers.cli.options import DocumentedCommand
from workers.transport.place import BridgeError

if TYPE_CHECKING:
    from workers.transport.gateway_client import GatewayClient


class RunsCommand(Protocol):
    """A bridge around a command. Raises OSError when that cannot be started."""

    async def run(self, command: Sequence[str]) -> int: ...


def run_around(options: BridgeOptions, command: Sequence[str], make: Callable[[GatewayClient], RunsCommand]) -> int:
    """Run a command behind a bridge and return its exit code. Raises BridgeError if it does not start."""
    from workers.bridges.tool_calls import run_bridge  # noqa: PLC0415 - asyncio is slow to import

    try:
        return run_bridge(options, lambda client: make(client).run(command))
    except OSError as error:
        raise _not_started(command, error) from error


def _not_started(command: Sequence[str], error: OSError) -> BridgeError:
    return BridgeError(f"`{command[0]}` cannot be started: {(error.strerror or str(error)).lower()}")


@bridge_command(
    "claude",
    "permission-ledger bridge claude -- claude -p --input-format stream-json --output-format stream-json --verbose",
    "permission-ledger bridge claude --rules .claude/settings.json -- claude",
    "permission-ledger bridge claude --dialect betcode --rules permissions.json -- claude",
    "permission-ledger bridge claude --install --scope project",
    "permission-ledger bridge claude --install --event PreToolUse",
    "permission-ledger bridge claude --install --http",
    "permission-ledger bridge claude --status",
    dialect="claude",
    other_dialects=("betcode",),
    context_settings={"ignore_unknown_options": False},
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--interrupt", is_flag=True, help="A rejection that should stop the agent also ends its turn.")
@click.option("--share-grants", is_flag=True, help="Tell the client what was granted; it then asks no more, nor do we.")
@click.option(
    "--prompt-tool", is_flag=True, help="Be the MCP server for `--permission-prompt-tool mcp__ledger__approve`."
)
@click.option(
    "--require-asking",
    is_flag=True,
    help="With a COMMAND: start it in a mode in which Claude Code asks, and refuse every other mode.",
)
@install_options(CLAUDE, has_command=True)
@click.option(
    "--http",
    is_flag=True,
    help="With --install: the gateway on this machine answers the hooks, and no call starts a process. For this project "
    "alone (scope `local`), and Claude Code 2.1.295 or newer.",
)
@click.option(
    "--event",
    type=click.Choice(WAYS),
    default=BOTH,
    show_default=True,
    help="The calls that the hooks ask about: every call, at the terminal and in the inbox at once; every call, in the inbox alone "
    "(PreToolUse); or only what Claude Code would ask its user (PermissionRequest).",
)
def claude(
    *,
    options: BridgeOptions,
    wanted: InstallOptions,
    command: Sequence[str],
    interrupt: bool,
    share_grants: bool,
    prompt_tool: bool,
    event: str,
    http: bool,
    require_asking: bool,
) -> int | None:
    """Put the ledger between Claude Code and whoever started it.

    A COMMAND that speaks stream-json on stdio (an editor's, the SDK's) is answered there; any other one, the terminal
    included, gets hooks of ours for this run. With --install every run of Claude Code does.
    """
    if require_asking and not command:
        raise click.UsageError("--require-asking goes with a COMMAND; hooks ask in every mode (--event both)")
    if http and not wanted.install:
        raise click.UsageError("--http goes with --install")
    if prompt_tool:
        import asyncio  # noqa: PLC0415 - slow to import

        from workers.bridges.claude.bridge import serve_prompt_tool  # noqa: PLC0415 - as above

        asyncio.run(serve_prompt_tool(options))
        return None
    if command:
        flags = {"interrupts": interrupt, "shares_grants": share_grants, "requires_asking": require_asking}
        return _run_claude(command, options, event, flags)
    path = claude_settings(wanted.scope or ("local" if http else "user"))
    token = token_in(read_settings(path))
    if http:
        code = _install_http(options, wanted, event, token)
    else:
        code = carry_out(CLAUDE._replace(entries=partial(claude_entries, way=event)), options, wanted)
    if token is not None and token_in(read_settings(path)) != token:
        from workers.cli.http_hook import revoke  # noqa: PLC0415 - as above

        revoke(token)
    if wanted.install and not code and event in NOT_ASKED:
        click.echo(NOT_ASKED[event], err=True)
    return code


def _install_http(options: BridgeOptions, wanted: InstallOptions, way: str, token: str | None) -> int:
    from workers.cli.http_hook import hook_for  # noqa: PLC0415 - slow to import, and an extra

    if wanted.scope not in (None, "local"):
        raise BridgeError("the token of --http asks in one project and belongs to one person: use `--scope local`")
    words = hook_words(options, limit=wanted.limit)
    if not all(word.isascii() and word.isprintable() for word in words):
        raise BridgeError("a name with other letters than ASCII cannot stand in a header; leave out --http")
    hook = hook_for(options, claude_settings("user").parent, token)
    settings = http_hook_settings(hook.url, words, wanted.limit, way)
    agent = CLAUDE._replace(entries=lambda *_: settings)
    return carry_out(agent, options, wanted._replace(scope="local"), token=hook.token, ready=hook.begin)


def _run_claude(command: Sequence[str], options: BridgeOptions, event: str, flags: dict[str, bool]) -> int:
    from workers.bridges.claude.bridge import ClaudeBridge, asking, wrap  # noqa: PLC0415 - asyncio is slow to import
    from workers.bridges.tool_calls import announce_alone  # noqa: PLC0415 - as above

    wrapped, is_on_stdio = wrap(asking(command) if flags["requires_asking"] else command, hook_words(options), event)
    if is_on_stdio:
        return run_around(options, wrapped, lambda client: ClaudeBridge(client, options, **flags))
    announce_alone(options)
    try:
        os.execvp(wrapped[0], wrapped)  # noqa: S606 - the command is the user's own
    except OSError as error:
        raise _not_started(wrapped, error) from error


@bridge_command(
    "codelia",
    "permission-ledger bridge codelia -- bun packages/runtime/src/index.ts",
    "permission-ledger bridge codelia --rules .codelia/config.json -- bun packages/runtime/src/index.ts",
    "permission-ledger bridge codelia --headless -- bun packages/runtime/src/index.ts",
    dialect="codelia",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--headless", is_flag=True, help="The host asks nobody (`codelia -p`): the ledger alone answers.")
@click.option("--share-grants", is_flag=True, help="Tell Codelia what was granted; it then asks no more, nor do we.")
def codelia(*, options: BridgeOptions, command: tuple[str, ...], headless: bool, share_grants: bool) -> int:
    """Answer what Codelia's runtime asks about its tools, by the ledger's rules and people.

    COMMAND starts the runtime. Codelia takes this line for its runtime's by CODELIA_RUNTIME_CMD=permission-ledger and
    CODELIA_RUNTIME_ARGS="bridge codelia -- COMMAND…".
    """
    from workers.bridges.codelia import CodeliaBridge  # noqa: PLC0415 - asyncio is slow to import

    return run_around(
        options,
        command,
        lambda client: CodeliaBridge(client, options, shares_grants=share_grants, headless=headless),
    )


@bridge_command(
    "opencode",
    "permission-ledger bridge opencode --url http://127.0.0.1:4096",
    "permission-ledger bridge opencode --url http://127.0.0.1:4096 --directory . --rules opencode.json",
    "permission-ledger bridge opencode -- opencode serve --port 4096",
    "permission-ledger bridge opencode --listen 127.0.0.1:4097 -- opencode serve --port 4096",
    dialect="opencode",
)
@click.option("--url", metavar="URL", help="The OpenCode server (default: http://127.0.0.1:4096, or as PROGRAM says).")
@click.option("--directory", metavar="DIR", help="Follow this project directory alone (default: all of the server's).")
@click.option("--listen", metavar="HOST:PORT", help="Be a proxy in front of the server: every byte as it came.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def opencode(
    *, options: BridgeOptions, url: str | None, directory: str | None, listen: str | None, program: tuple[str, ...]
) -> int:
    """Answer what an OpenCode server asks, by the ledger's rules and people. PROGRAM is started and ended with it.

    Answers given in OpenCode itself count as well: whoever is first. A server with a password wants
    OPENCODE_SERVER_PASSWORD set here too.
    """
    from workers.bridges.opencode.bridge import OpencodeOptions, run  # noqa: PLC0415 - asyncio is slow to import

    return run(OpencodeOptions(url, directory, listen, program), options)


@bridge_command(
    "acp",
    "permission-ledger bridge acp -- gemini --acp",
    "permission-ledger bridge acp --rules opencode.json -- opencode acp",
    dialect="opencode",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def acp(*, options: BridgeOptions, command: Sequence[str]) -> int:
    """Put the ledger between an editor and an ACP agent: name this command where the editor names the agent's.

    Rules decide at once. What waits for a person is shown by the editor too; whoever answers first, there or in the
    inbox, counts. Tools are judged under OpenCode's names: bash, edit, read, webfetch.
    """
    from workers.bridges.acp import AcpWire  # noqa: PLC0415 - asyncio is slow to import
    from workers.bridges.race import RacingBridge  # noqa: PLC0415 - as above
    from workers.bridges.stdio import tell  # noqa: PLC0415

    wire = AcpWire(PurePath(command[0]).name or "acp", new_id("run"), tell)
    return run_around(options, command, lambda client: RacingBridge(client, options, wire))


@bridge_command(
    "codex",
    "permission-ledger bridge codex -- codex app-server",
    "permission-ledger bridge codex --rules opencode.json --interrupt -- codex app-server",
    "permission-ledger bridge codex --install --trust",
    "permission-ledger bridge codex --install --event PreToolUse --rules opencode.json",
    "permission-ledger bridge codex --status",
    dialect="opencode",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--interrupt", is_flag=True, help="A rejection that should stop the agent also ends its turn.")
@install_options(CODEX, has_command=True)
@click.option(
    "--trust",
    is_flag=True,
    help="With --install: tell the `codex` on the PATH that the hook is trusted, as `/hooks` there does.",
)
@click.option(
    "--event",
    type=click.Choice(("PreToolUse", "PermissionRequest")),
    default="PermissionRequest",
    show_default=True,
    help="For --install: what Codex would ask its user, or every call of a tool.",
)
def codex(
    *,
    options: BridgeOptions,
    wanted: InstallOptions,
    command: Sequence[str],
    interrupt: bool,
    trust: bool,
    event: str,
) -> int:
    """Put the ledger between a client and `codex app-server`: command and file-change approvals are judged.

    Rules decide at once. What waits for a person is shown by the client too; whoever answers first counts. Calls are
    judged under OpenCode's names, bash and edit; the prefix that Codex would remember is what an `always` grants.
    With --install every run of Codex asks by a hook, once the hook is trusted there.
    """
    if trust and not wanted.install:
        raise click.UsageError("--trust goes with --install")
    if not command:
        agent = CODEX._replace(entries=partial(codex_entries, event=event))
        return carry_out(agent, options, wanted, then=_trust_hook if trust else lambda _: None)
    from workers.bridges.codex_wire import CodexWire  # noqa: PLC0415 - asyncio is slow to import
    from workers.bridges.race import RacingBridge  # noqa: PLC0415 - as above

    wire = CodexWire(new_id("run"), interrupts=interrupt)
    return run_around(options, command, lambda client: RacingBridge(client, options, wire))


def _trust_hook(path: Path) -> None:
    from workers.bridges.codex_trust import trust_hooks  # noqa: PLC0415 - slow to import

    trust_hooks(path, Path.cwd(), codex_config())


def _by_hook_alone(agent: HookedAgent, title: str) -> DocumentedCommand:
    def change(*, options: BridgeOptions, wanted: InstallOptions) -> int:
        return carry_out(agent, options, wanted)

    name = agent.name
    change.__doc__ = (
        f"Have every run of {title} ask by a hook in its settings. In an editor: `bridge acp -- {name} --acp`."
    )
    examples = ("--install", "--install --scope project --rules opencode.json", "--status")
    lines = [f"permission-ledger bridge {name} {words}" for words in examples]
    return bridge_command(name, *lines, dialect="opencode")(install_options(agent, has_command=False)(change))


gemini = _by_hook_alone(GEMINI, "Gemini CLI")
qwen = _by_hook_alone(QWEN, "Qwen Code")

_AGENTS: Final = "Agents"

COMMANDS = {
    "claude": ("workers.cli.bridge:claude", "Claude Code: wrapped, or by hooks in its settings.", _AGENTS),
    "codelia": ("workers.cli.bridge:codelia", "Codelia: between its interface and its runtime.", _AGENTS),
    "acp": ("workers.cli.bridge:acp", "Any agent that speaks ACP: Gemini CLI, OpenCode and others.", _AGENTS),
    "codex": ("workers.cli.bridge:codex", "Codex: by its app-server, or by a hook in its settings.", _AGENTS),
    "gemini": ("workers.cli.bridge:gemini", "Gemini CLI: by a hook in its settings.", _AGENTS),
    "qwen": ("workers.cli.bridge:qwen", "Qwen Code: by a hook in its settings.", _AGENTS),
    "opencode": ("workers.cli.bridge:opencode", "OpenCode: beside its server, or in front.", _AGENTS),
}

bridge = LazyGroup(
    COMMANDS,
    name="bridge",
    help="Put the ledger between a real agent and whoever started it; every permission request is judged and recorded.",
)
