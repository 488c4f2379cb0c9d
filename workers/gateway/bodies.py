"""The request bodies of the routes. An unknown member is refused: a misspelt name must not mean "not given"."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ledger.core.access_events import Role
from ledger.core.errors import AgentAction, InputError
from ledger.core.event_shapes import Assertion
from ledger.core.events import (
    Answering,
    CascadeAlways,
    CascadeReject,
    Extending,
    ExtendReason,
    LateDenies,
    WhenAbandoned,
    WhenFrozen,
)
from ledger.core.operands import FileState
from workers.gateway.principals import OWN_CHANNELS

Duration = Annotated[str, Meta(description="`60s`, `5m`, `36h`, `7d`, or `none` for never")]
ApprovalLifetime = Annotated[
    str,
    Meta(
        description="The time within which an answered call must begin, like `10m`; `none`: no limit. Later it asks again"
    ),
]
ClaimTimeout = Annotated[
    str,
    Meta(description="The time after which a claim without a recorded end is ended, like `1h`; the call may have run"),
]
SETTINGS: Final = (
    *("cascade_reject", "cascade_always", "answering", "on_denied", "when_abandoned", "when_frozen"),
    "extending",
)
"""The settings of a session besides its deadlines, by their names in a body and in the log."""

AskersCause = Literal["asker_gave_up", "asker_died", "withdrawn"]
"""The causes that a caller may give; only the ledger sets the others."""

Prompt = Annotated[
    str, Meta(pattern="^[a-z][a-z0-9-]{0,31}$", description="Where it was answered, in a word: `opencode`, `editor`")
]
Digest = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="The caller's own digest of the rules it brings; an ask with another one is refused (`RULES_DIFFER`)",
    ),
]
ProjectDigest = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="What the caller's user trusts in the session's project; a gateway that trusts something else there "
        "refuses (`PROJECT_RULES_DIFFER`)",
    ),
]
REPLIES_COUNT_MAX: Final = 200
"""Requests that one call answers."""

AnswerCascade = Annotated[
    Literal["project"] | None,
    Meta(
        description="An `always` in the project also releases what it covers in the project's other sessions, "
        "whatever their own `cascade_always`"
    ),
]
Patterns = Annotated[list[str], Meta(description="What would run or be touched, one text each")]


class ClaudeEvent(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One event of Claude Code's hooks. Further members, of which each version has others, are left out."""

    hook_event_name: str
    session_id: str
    cwd: str | None = None
    transcript_path: str | None = None
    permission_mode: str | None = None
    prompt_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    tool_name: str | None = None
    tool_input: dict[str, Any] | None = None
    tool_use_id: str | None = None


class Body(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of all request bodies."""


class TimeoutsBody(Body, kw_only=True, frozen=True):
    """Deadlines of a session's requests. Omitted members stay unchanged; a new session gets the gateway's deadlines."""

    attended: Duration | None = None
    unattended: Duration | None = None
    cap: Duration | None = None
    least_gain: Duration | None = None


class OpenSession(Body, kw_only=True, frozen=True):
    """Open a session or attach to it; omitted members stay unchanged.

    `rules`, `policy`, `options` and `late_denies` are accepted from tokens that may bring rules; other sessions are
    judged by the gateway's own rules. `cwd` and `home` are paths on the machine where the agent's calls run; `home` is
    ignored from other tokens, so that `~` counts as outside the project.
    """

    project: str | None = None
    dialect: str | None = None
    rules: list[dict[str, Any]] | dict[str, Any] | None = None
    policy: dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    policy_source: str | None = None
    timeouts: TimeoutsBody | None = None
    cascade_reject: CascadeReject | None = None
    cascade_always: CascadeAlways | None = None
    answering: Answering | None = None
    on_denied: AgentAction | None = None
    when_abandoned: WhenAbandoned | None = None
    late_denies: LateDenies | None = None
    when_frozen: WhenFrozen | None = None
    extending: Extending | None = None
    approval_lifetime: ApprovalLifetime | None = None
    claim_timeout: ClaimTimeout | None = None
    agent: str | None = None
    parent: str | None = None
    cwd: str | None = None
    home: str | None = None
    rules_digest: Digest | None = None
    project_rules: ProjectDigest | None = None
    rules_untrusted: str | None = None

    @property
    def says_rules(self) -> bool:
        return not (self.rules is None and self.policy is None and self.options is None)


class ToolBody(Body, kw_only=True, frozen=True):
    message_id: str
    call_id: str


class OperandBody(Body, kw_only=True, frozen=True):
    """A file that a call executes or reads as a program, as it was found on the machine of the agent."""

    path: Annotated[str, Meta(description="Absolute, as the call names it")]
    sha256: str | None = None
    found: FileState = "file"
    real: Annotated[str | None, Meta(description="The path with every link followed, where it differs")] = None
    size_bytes: int | None = None


class RunnerBody(Body, kw_only=True, frozen=True):
    """The program that runs a call: its name, and its own id of the call. The same two are the same runner."""

    name: str
    call: str


RunnerText = Annotated[
    RunnerBody | str, Meta(description="The runner; a text is its name, and its call is then the request")
]


class AskBody(Body, kw_only=True, frozen=True):
    """A request: as given with `permission`, or read by the dialect from `tool_name` and `input` alone."""

    permission: str | None = None
    patterns: Patterns | None = None
    always: Annotated[
        list[str] | None, Meta(description="What an `always` grants; for a tool call the rules say it unless given")
    ] = None
    metadata: dict[str, Any] | None = None
    request_id: str | None = None
    tool: Annotated[
        ToolBody | str | None,
        Meta(description="The tool call that it belongs to; or, as in `policy check`, the tool's name"),
    ] = None
    tool_name: str | None = None
    input: dict[str, Any] | None = None
    agent: str | None = None
    parent: str | None = None
    cwd: str | None = None
    rules_digest: Digest | None = None
    project_rules: ProjectDigest | None = None
    operands: Annotated[
        list[OperandBody] | Literal["ask"] | None,
        Meta(description="The files that the call executes; or `ask`, if the caller can hash them once it knows which"),
    ] = None
    waits: Annotated[
        Duration | None,
        Meta(description="How long the caller waits for the answer; nobody extends the request beyond it"),
    ] = None
    claim: Annotated[
        RunnerText | bool | None,
        Meta(description="Claim the call for this runner as soon as it is allowed; `true`: the `Idempotency-Key`"),
    ] = None
    trace: Annotated[
        Any,
        Meta(
            description="The caller's trace context, `{traceparent, tracestate}`, for callers that cannot send it as "
            "headers; one that is not valid is ignored"
        ),
    ] = None


class ExtendBody(Body, kw_only=True, frozen=True):
    """More time for an attended request: by an act of a person that thinks, or by hand."""

    reason: Annotated[
        ExtendReason,
        Meta(description="`by_hand`: five minutes more. `typing`, `open_card`: five minutes from the ask, once"),
    ] = "by_hand"
    deadline: Annotated[
        str | None,
        Meta(description="The deadline as it was shown; needed with `by_hand`. An extension since then suffices"),
    ] = None
    client_id: str | None = None


class SignedBody(Body, kw_only=True, frozen=True):
    """A challenge signed by a passkey in the browser that sends this body."""

    assertion: Assertion
    nonce: str
    until_ms: int


class ReplyBody(Body, kw_only=True, frozen=True):
    """An answer. `digest` is that of the request as it was shown; the answer counts only for that request.

    Codelia's confirm result may stand in `reply`, or its members (`ok`, `remember`, `reason`) in the body itself.
    """

    reply: Annotated[
        str | dict[str, Any] | None,
        Meta(
            description="`once`, `session`, `always`, `reject`, BetCode's names, or Codelia's `{ok, remember, reason}`"
        ),
    ] = None
    ok: bool | None = None
    remember: bool | None = None
    reason: str | None = None
    message: str | None = None
    digest: str | None = None
    round: (
        Annotated[
            int, Meta(ge=1, description="The round of the request as it was shown; needed from round 2 on, or `digest`")
        ]
        | None
    ) = None
    client_id: str | None = None
    updated_input: dict[str, Any] | None = None
    expires: Annotated[
        Duration | None, Meta(description="How long the grants of `session` or `always` last; `none` for ever")
    ] = None
    uses: Annotated[int | None, Meta(description="How many more calls those grants allow")] = None
    patterns: Annotated[list[str] | None, Meta(description="What those grants allow, in place of what is offered")] = (
        None
    )
    cascade_always: AnswerCascade = None
    signed: Annotated[
        SignedBody | None, Meta(description="The challenge of this answer, signed; where a demand wants that")
    ] = None

    @property
    def answer(self) -> str | dict[str, Any]:
        """Return the answer from either of its places. Raises InputError for none, or both."""
        said = {"ok": self.ok, "remember": self.remember, "reason": self.reason}
        confirm = {name: value for name, value in said.items() if value is not None}
        if self.reply is not None and confirm:
            raise InputError("give `reply`, or Codelia's `ok`, `remember` and `reason`, not both")
        if self.reply is None and not confirm:
            raise InputError("give `reply`: `once`, `session`, `always` or `reject`")
        return confirm if self.reply is None else self.reply


class RequestBody(Body, kw_only=True, frozen=True):
    """A request as it was shown; the answer counts only for the request of this digest.

    `patterns` replace those of the answer for this request: each may grant what its own card offered.
    """

    session: str
    request_id: str
    digest: str
    patterns: list[str] | None = None


class RepliesBody(Body, kw_only=True, frozen=True):
    """One answer to several requests, each named with the digest that was shown; members as for a reply."""

    requests: Annotated[list[RequestBody], Meta(min_length=1, max_length=REPLIES_COUNT_MAX)]
    reply: Annotated[str, Meta(description="`once`, `session`, `always` or `reject`")]
    message: str | None = None
    expires: Duration | None = None
    uses: int | None = None
    patterns: list[str] | None = None
    cascade_always: AnswerCascade = None


class AnswerChallengeBody(Body, kw_only=True, frozen=True):
    """The answer that a passkey is to sign, exactly as it will be sent."""

    reply: Annotated[str | dict[str, Any], Meta(description="As for a reply")]
    message: str | None = None
    updated_input: dict[str, Any] | None = None
    expires: Duration | None = None
    uses: int | None = None
    patterns: list[str] | None = None


class MadePasskeyBody(Body, kw_only=True, frozen=True):
    """A new passkey: the JSON that `navigator.credentials.create` returned for a challenge of this gateway."""

    response: dict[str, Any]
    nonce: str
    until_ms: int


class PasskeyChallengeBody(Body, kw_only=True, frozen=True):
    """A change of the caller's passkeys: `credential_id` is to be removed, or one of theirs consents to the one `made`."""

    action: Literal["register", "remove"]
    credential_id: str | None = None
    made: MadePasskeyBody | None = None


class PasskeyBody(MadePasskeyBody, kw_only=True, frozen=True):
    name: str
    consent: SignedBody | None = None


class RemovePasskeyBody(Body, kw_only=True, frozen=True):
    consent: SignedBody | None = None


class AnsweredBody(Body, kw_only=True, frozen=True):
    """A person's answer at the agent's own prompt, on which the agent has acted already."""

    reply: Annotated[str | dict[str, Any], Meta(description="As for a reply")]
    prompt: Prompt | None = None
    message: str | None = None
    updated_input: Annotated[
        dict[str, Any] | None,
        Meta(description="What the person made of the tool's input, a question's answers for one"),
    ] = None

    @property
    def told(self) -> str:
        """Return the prompt. Raises InputError for none, and for a channel of the gateway."""
        said = self.prompt
        if said is None:
            raise InputError("give `prompt`: where it was answered, in a word, for example `editor`")
        if said in OWN_CHANNELS:
            raise InputError(f"`{said}` is a channel of the gateway itself; name the agent's prompt, such as `editor`")
        return said


class ClaimBody(Body, kw_only=True, frozen=True):
    """The runner of the call; without one the header `Idempotency-Key` names it.

    `operands` are the files that the call executes, hashed right before; needed where the request has any.
    """

    runner: RunnerText | None = None
    operands: list[OperandBody] | Literal["ask"] | None = None


class FinishBody(Body, kw_only=True, frozen=True):
    """The end of a run. `claim_id` is that of its claim, or `runner` that of the claim's runner."""

    claim_id: str | None = None
    runner: RunnerText | None = None
    ok: bool = True
    input: Annotated[
        dict[str, Any] | None,
        Meta(description="What ran, if the runner knows it: the log says whether it was as asked"),
    ] = None
    title: str | None = None
    output: str | None = None


class CancelBody(Body, kw_only=True, frozen=True):
    cause: AskersCause = "withdrawn"
    reason: str | None = None


class EndClaimsBody(Body, kw_only=True, frozen=True):
    """The end of a runner. The claims of its name end, and its calls may have run."""

    runner: Annotated[str, Meta(description="The name in the runners of its claims")]


class ReasonBody(Body, kw_only=True, frozen=True):
    reason: str | None = None


class ToolFinishedBody(Body, kw_only=True, frozen=True):
    """A tool call that has run. With `input` the log records whether it was the call that had been asked."""

    request_id: str | None = None
    call_id: str | None = None
    ok: bool = True
    input: dict[str, Any] | None = None
    title: str | None = None
    output: str | None = None


class FreezeBody(Body, kw_only=True, frozen=True):
    """Freeze the whole ledger, or one project."""

    reason: Annotated[str, Meta(min_length=1, description="Shown to everybody whom it stops")]
    project: str | None = None


class GrantBody(Body, kw_only=True, frozen=True):
    """A grant made without a request, for a session or for a project."""

    session: str | None = None
    project: str | None = None
    permission: str
    patterns: Patterns | None = None
    pattern: Annotated[str | None, Meta(description="One pattern; the answer is then that one grant")] = None
    expires: Duration | None = None
    uses: Annotated[int | None, Meta(description="The number of calls that it allows; without it, any number")] = None
    reason: str | None = None


class LockBody(Body, kw_only=True, frozen=True):
    client_id: str


class PassLockBody(Body, kw_only=True, frozen=True):
    client_id: str
    to: str


class TokenBody(Body, kw_only=True, frozen=True):
    name: str
    role: Role
    projects: list[str] = []
    sessions: list[str] = []
    expires: Duration | None = None
    brings_rules: bool = False
    owner: Annotated[str | None, Meta(description="For whom an agent works; without it, whoever makes the token")] = (
        None
    )
    everything: Annotated[bool, Meta(description="An agent that reaches the sessions of others too")] = False
    any_project: Annotated[bool, Meta(description="An agent that works in more than one project")] = False
    folders: Annotated[list[str], Meta(description="Where an agent's sessions may work")] = []


class SignInBody(Body, kw_only=True, frozen=True):
    """A token, or the code of a one-time link."""

    token: str | None = None
    code: str | None = None


class DeviceKeysBody(Body, kw_only=True, frozen=True):
    """The keys of a browser's subscription, as its `toJSON` has them."""

    p256dh: str
    auth: str


class DeviceBody(Body, kw_only=True, frozen=True):
    """The subscription of the caller's browser, under the person's name for the device."""

    name: str
    endpoint: str
    keys: DeviceKeysBody
    replaces: str | None = None
    """The endpoint that this browser had before; the caller's device there gets the new one."""


TimeOfDay = Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", description="Like `22:00`")]


class QuietBody(Body, kw_only=True, frozen=True):
    """Quiet hours. `days` are those on which they begin, 0 is Monday; with `grave`, grave requests still come."""

    begin: TimeOfDay
    until: TimeOfDay
    zone: Annotated[str, Meta(description="A name of the IANA database, like `Europe/Berlin`")]
    days: list[int] = msgspec.field(default_factory=lambda: list(range(7)))
    grave: bool = False


class ChoiceBody(Body, kw_only=True, frozen=True):
    """The choices of a person; what is left out is turned off."""

    quiet: QuietBody | None = None
    muted: list[str] = []
