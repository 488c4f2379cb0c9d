"""The command line. Only click is imported until a command is used, so that each starts fast."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, ListedCommand

ASKING = "Ask and answer"
LOOKING = "Look back"
CHECKING = "Check and keep"
RULES = "Rules"
RUNNING = "Run"
AGENTS = "Agents"

COMMANDS = {
    "ask": ListedCommand("workers.cli.ask:ask", "Ask whether a tool call may run, and wait for the answer.", ASKING),
    "run": ListedCommand("workers.cli.run:run", "Run a command once it is allowed, and pass its exit code on.", ASKING),
    "reply": ListedCommand("workers.cli.reply:reply", "Answer a request: once, session, always or reject.", ASKING),
    "watch": ListedCommand("workers.cli.watch:watch", "Show what waits, live, and answer it with a key.", ASKING),
    "pending": ListedCommand("workers.cli.pending:pending", "List the requests that wait for a person.", ASKING),
    "why": ListedCommand(
        "workers.cli.why:why", "Show the rule that asks, and the smallest grant that answers.", ASKING
    ),
    "claim": ListedCommand("workers.cli.claims:claim", "Take the right to run an allowed call, once.", ASKING),
    "finish": ListedCommand("workers.cli.claims:finish", "Record the end of a claimed call.", ASKING),
    "release": ListedCommand("workers.cli.claims:release", "Give back the claim of a runner that died.", ASKING),
    "extend": ListedCommand("workers.cli.extend:extend", "Give a request five minutes more.", ASKING),
    "cancel": ListedCommand("workers.cli.endings:cancel", "Withdraw a request that is pending.", ASKING),
    "close": ListedCommand("workers.cli.endings:close", "Close a session; what is pending in it is cancelled.", ASKING),
    "approved": ListedCommand("workers.cli.grants:approved", "List the grants in force.", ASKING),
    "grant": ListedCommand("workers.cli.grants:grant", "Allow something from now on, without a request.", ASKING),
    "revoke": ListedCommand("workers.cli.grants:revoke", "End a grant.", ASKING),
    "freeze": ListedCommand("workers.cli.freezes:freeze", "Stop everything, or one project.", ASKING),
    "unfreeze": ListedCommand("workers.cli.freezes:unfreeze", "End a freeze.", ASKING),
    "sessions": ListedCommand("workers.cli.sessions:sessions", "List the sessions.", LOOKING),
    "show": ListedCommand("workers.cli.show:show", "Show a session as it is, or as it was.", LOOKING),
    "log": ListedCommand("workers.cli.log:log", "Print a session's events, and new ones as they come.", LOOKING),
    "replay": ListedCommand("workers.cli.replay:replay", "Replay a session, with its state after each event.", LOOKING),
    "search": ListedCommand("workers.cli.search:search", "Find requests by words and conditions.", LOOKING),
    "access": ListedCommand("workers.cli.access:access", "List sign-ins, and reads by people.", LOOKING),
    "export": ListedCommand(
        "workers.cli.exports:export", "Write sessions to a file that verifies by itself.", CHECKING
    ),
    "import": ListedCommand("workers.cli.imports:import_", "Read exported sessions into this ledger.", CHECKING),
    "verify": ListedCommand("workers.cli.verify:verify", "Check the log for changed, lost or added events.", CHECKING),
    "hold": ListedCommand("workers.cli.holds:hold", "Forbid redaction of a session or project.", CHECKING),
    "unhold": ListedCommand("workers.cli.holds:unhold", "Lift a legal hold.", CHECKING),
    "redact": ListedCommand("workers.cli.redact:redact", "Take content out of the log for good.", CHECKING),
    "archive": ListedCommand("workers.cli.archive:archive", "Seal old sessions: move them to an archive.", CHECKING),
    "restore": ListedCommand("workers.cli.archive:restore", "Bring a sealed session back to the server.", CHECKING),
    "rebuild": ListedCommand("workers.cli.rebuild:rebuild", "Rebuild all views from the streams.", CHECKING),
    "streams": ListedCommand(
        "workers.cli.streams:streams", "Show what the server holds and how far workers are.", CHECKING
    ),
    "doctor": ListedCommand(
        "workers.cli.doctor:doctor", "Check the server, its durability, the workers and the streams.", CHECKING
    ),
    "policy": ListedCommand("workers.cli.policy:policy", "Judge, explain and check rules.", RULES),
    "bridge": ListedCommand("workers.cli.bridge:bridge", "Put the ledger between a real agent and its user.", AGENTS),
    "hook": ListedCommand("workers.cli.hook:hook", "Answer one hook event of an agent, before a tool runs.", AGENTS),
    "init": ListedCommand(
        "workers.cli.init.command:init", "Set up a project: hooks of its agents, rules and settings.", RUNNING
    ),
    "inbox": ListedCommand("workers.cli.inbox:inbox", "Print a link that signs a browser in to the inbox.", RUNNING),
    "serve": ListedCommand("workers.cli.serve:serve", "Serve the ledger over HTTP: inbox and API.", RUNNING),
    "server-user": ListedCommand("workers.cli.server_user:server_user", "Make the ledger's user on a server.", RUNNING),
    "token": ListedCommand("workers.cli.tokens:token", "Tokens for the gateway: create, list, revoke.", RUNNING),
    "passkey": ListedCommand("workers.cli.passkeys:passkey", "Passkeys that sign answers: list, remove.", RUNNING),
    "device": ListedCommand("workers.cli.devices:device", "Devices with push messages: list, remove.", RUNNING),
    "demo": ListedCommand(
        "workers.cli.long_running:demo", "Play a recorded agent's session with people answering.", RUNNING
    ),
    "up": ListedCommand("workers.cli.long_running:up", "Run server, workers and gateway until Ctrl-C.", RUNNING),
    "worker": ListedCommand(
        "workers.cli.long_running:worker", "Run one worker: expiry, projector, notifier and others.", RUNNING
    ),
    "config": ListedCommand("workers.cli.config:config", "Show the settings, and trust a project's file.", RUNNING),
    "completion": ListedCommand(
        "workers.cli.completion:completion", "Print a shell's completion of commands, options and ids.", RUNNING
    ),
}

EPILOG = (
    "Without --url and PERMISSION_LEDGER_URL every command uses the embedded server of the data folder. "
    "Only exit code 0 is an allow."
)

cli = LazyGroup(
    COMMANDS,
    name="permission-ledger",
    help="Permissions of coding agents: asked, answered, timed out, remembered, replayed.",
    epilog=EPILOG,
)


def main() -> int:
    """Run the program `permission-ledger` and return its exit code, one of CONTRACT's."""
    from workers.cli.frame import run  # noqa: PLC0415 - so that importing this package stays cheap

    return run(cli)
