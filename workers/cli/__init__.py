"""The command line. Only click is imported until a command is used, so that each starts fast."""

from __future__ import annotations

from workers.cli.lazy import LazyGroup, run_program

ASKING = "Ask and answer"
LOOKING = "Look back"
CHECKING = "Check and keep"
RULES = "Rules"
RUNNING = "Run"
AGENTS = "Agents"

COMMANDS = {
    "ask": ("workers.cli.ask:ask", "Ask whether a tool call may run, and wait for the answer.", ASKING),
    "run": ("workers.cli.run:run", "Run a command once it is allowed, and pass its exit code on.", ASKING),
    "reply": ("workers.cli.reply:reply", "Answer a request: once, session, always or reject.", ASKING),
    "watch": ("workers.cli.watch:watch", "Show what waits, live, and answer it with a key.", ASKING),
    "pending": ("workers.cli.pending:pending", "List the requests that wait for a person.", ASKING),
    "why": ("workers.cli.search:why", "Show the rule that asks, and the smallest grant that answers.", ASKING),
    "claim": ("workers.cli.requests:claim", "Take the right to run an allowed call, once.", ASKING),
    "finish": ("workers.cli.requests:finish", "Record the end of a claimed call.", ASKING),
    "release": ("workers.cli.requests:release", "Give back the claim of a runner that died.", ASKING),
    "extend": ("workers.cli.requests:extend", "Give a request five minutes more.", ASKING),
    "cancel": ("workers.cli.requests:cancel", "Withdraw a request that is pending.", ASKING),
    "close": ("workers.cli.requests:close", "Close a session; what is pending in it is cancelled.", ASKING),
    "approved": ("workers.cli.grants:approved", "List the grants in force.", ASKING),
    "grant": ("workers.cli.grants:grant", "Allow something from now on, without a request.", ASKING),
    "revoke": ("workers.cli.grants:revoke", "End a grant.", ASKING),
    "freeze": ("workers.cli.freezes:freeze", "Stop everything, or one project.", ASKING),
    "unfreeze": ("workers.cli.freezes:unfreeze", "End a freeze.", ASKING),
    "sessions": ("workers.cli.sessions:sessions", "List the sessions.", LOOKING),
    "show": ("workers.cli.show:show", "Show a session as it is, or as it was.", LOOKING),
    "log": ("workers.cli.log:log", "Print a session's events, and new ones as they come.", LOOKING),
    "replay": ("workers.cli.log:replay", "Replay a session, with its state after each event.", LOOKING),
    "search": ("workers.cli.search:search", "Find requests by words and conditions.", LOOKING),
    "access": ("workers.cli.sessions:access", "List sign-ins, and reads by people.", LOOKING),
    "export": ("workers.cli.transfer:export", "Write sessions to a file that verifies by itself.", CHECKING),
    "import": ("workers.cli.transfer:import_", "Read exported sessions into this ledger.", CHECKING),
    "verify": ("workers.cli.verify:verify", "Check the log for changed, lost or added events.", CHECKING),
    "hold": ("workers.cli.freezes:hold", "Forbid redaction of a session or project.", CHECKING),
    "unhold": ("workers.cli.freezes:unhold", "Lift a legal hold.", CHECKING),
    "redact": ("workers.cli.redact:redact", "Take content out of the log for good.", CHECKING),
    "archive": ("workers.cli.archive:archive", "Seal old sessions: move them to an archive.", CHECKING),
    "restore": ("workers.cli.archive:restore", "Bring a sealed session back to the server.", CHECKING),
    "rebuild": ("workers.cli.streams:rebuild", "Rebuild all views from the streams.", CHECKING),
    "streams": ("workers.cli.streams:streams", "Show what the server holds and how far workers are.", CHECKING),
    "doctor": ("workers.cli.doctor:doctor", "Check the server, its durability, the workers and the streams.", CHECKING),
    "policy": ("workers.cli.policy:policy", "Judge, explain and check rules.", RULES),
    "bridge": ("workers.cli.bridge:bridge", "Put the ledger between a real agent and its user.", AGENTS),
    "hook": ("workers.cli.hook:hook", "Answer one hook event of an agent, before a tool runs.", AGENTS),
    "init": ("workers.cli.init:init", "Set up a project: hooks of its agents, rules and settings.", RUNNING),
    "up": ("workers.cli.up:up", "Run it all: server, inbox, deadlines, views, search.", RUNNING),
    "down": ("workers.cli.up:down", "End what `up` runs in the background or as a service.", RUNNING),
    "status": ("workers.cli.up:status", "Show what runs, since when, where, and what waits.", RUNNING),
    "inbox": ("workers.cli.sign_in:inbox", "Print a link that signs a browser in to the inbox.", RUNNING),
    "serve": ("workers.cli.long_running:serve", "Serve the ledger over HTTP: inbox and API.", RUNNING),
    "server-user": ("workers.cli.long_running:server_user", "Make the ledger's user on a server.", RUNNING),
    "token": ("workers.cli.sign_in:token", "Tokens for the gateway: create, list, revoke.", RUNNING),
    "passkey": ("workers.cli.sign_in:passkey", "Passkeys that sign answers: list, remove.", RUNNING),
    "device": ("workers.cli.sign_in:device", "Devices with push messages: list, remove.", RUNNING),
    "demo": ("workers.cli.long_running:demo", "Play a recorded agent's session with people answering.", RUNNING),
    "worker": ("workers.cli.long_running:worker", "Run one worker: expiry (TTL scheduler), projector, …", RUNNING),
    "config": ("workers.cli.config:config", "Show the settings, and trust a project's file.", RUNNING),
    "completion": (
        "workers.cli.completion:completion",
        "Print a shell's completion of commands, options and ids.",
        RUNNING,
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
    return run_program(cli)
