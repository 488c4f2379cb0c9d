"""The server of a deployment: an attacker's access to it, with the ledger's password and without."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest
import redis
import yaml

from ledger import Durability, Ledger
from ledger.core.timeouts import Timeouts
from ledger.stores.redis.least_rights import LEAST_RIGHTS, SEALING_RIGHTS
from tests.house.sources import text_of
from tests.journeys.processes import Process
from tests.support.askers import ASK
from tests.support.backends import OTHER_SERVERS
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.programs import EMBEDDED
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer

COMPOSE: Final[dict[str, Any]] = yaml.safe_load(text_of("compose.yaml"))
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]

OPERATOR: Final = "user operator on >operator ~* &* +@all\n"
"""A user of the test, beside those of the file."""

NOTIFY: Final = '[[people]]\nname = "ann"\nservices = ["json://127.0.0.1:9"]\n'

STREAM: Final = "{pl:1}:s:ses_1"

REFUSED: Final = (
    "CONFIG GET requirepass",
    "CONFIG SET appendonly no",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "DEBUG SLEEP 0",
    "KEYS *",
    "MONITOR",
    "SHUTDOWN NOSAVE",
    "SAVE",
    "BGREWRITEAOF",
    "REPLICAOF NO ONE",
    "MODULE LIST",
    "ACL LIST",
    "ACL SETUSER ledger allkeys",
    "CLIENT KILL TYPE normal",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "FUNCTION LOAD #!lua",
    "EVAL return{} 0",
    # No single command overwrites, empties or deletes a history.
    f"DEL {STREAM}",
    f"UNLINK {STREAM}",
    f"SET {STREAM} x",
    f"PEXPIRE {STREAM} 1",
    f"EXPIRE {STREAM} 1",
    f"XTRIM {STREAM} MAXLEN 0",
    f"XDEL {STREAM} 1-1",
    f"XSETID {STREAM} 9-9",
    f"RENAME {STREAM} {{pl:1}}:s:ses_2",
    f"RENAMENX {STREAM} {{pl:1}}:s:ses_2",
    f"RENAMENX {STREAM} {{pl:1}}:sealing:x",
    f"RENAME {{pl:1}}:sealing:x {STREAM}",
    f"COPY {STREAM} {{pl:1}}:s:ses_2",
    f"RESTORE {STREAM} 0 x REPLACE",
    # No access to other data on the same server.
    "GET somebody-elses",
    "HGET somebody-elses x",
    "XRANGE somebody-elses - +",
    "HSET pl:other x y",
    "SSUBSCRIBE news",
    "SPUBLISH news x",
    "PUBLISH {pl:1}:bell x",
)


class Guarded:
    """A server on a port of this machine, with the users that `server-user` wrote."""

    def __init__(self, start_server: StartServer, folder: Path, binary: str) -> None:
        self.acl, self.url_file = folder / "users.acl", folder / "url"
        # The readiness check of the test's server has no password.
        self.acl.write_text("user default on nopass ~* &* +@all\n")
        self.port = free_port()
        options = {"aclfile": str(self.acl), "port": str(self.port), "enable-debug-command": "yes"}
        self.server: RealServer = start_server(binary, binary=binary, options=options)
        self.archiver_url_file = folder / "archiver-url"
        files = ("--url-file", self.url_file, "--acl-file", self.acl, "--archiver-url-file", self.archiver_url_file)
        CommandLine("memory://")("server-user", "--server", f"redis://127.0.0.1:{self.port}/0", *files, code=0)
        self.acl.write_text(self.acl.read_text() + OPERATOR)
        with redis.Redis.from_url(self.server.url) as client:
            client.acl_load()
        self.url = self.url_file.read_text().strip()
        self.run = CommandLine("", {"PERMISSION_LEDGER_URL": "", "PERMISSION_LEDGER_URL_FILE": str(self.url_file)})

    def client(self, user: str | None = None, password: str | None = None) -> redis.Redis:
        return redis.Redis(port=self.port, username=user, password=password, decode_responses=False)

    def refusals(self) -> set[tuple[str, str]]:
        """Return user and command or key of every refusal of the server."""
        with self.client("operator", "operator") as operator:
            rows = operator.execute_command("ACL", "LOG", "128")
        return {(row[b"username"].decode(), row[b"object"].decode()) for row in rows}


@pytest.fixture(params=[EMBEDDED, *OTHER_SERVERS])
def guarded(start_server: StartServer, tmp_path: Path, request: pytest.FixtureRequest) -> Guarded:
    return Guarded(start_server, tmp_path, request.param)


@pytest.mark.slow
def test_using_the_server_without_its_password(guarded: Guarded) -> None:
    with guarded.client() as stranger:
        for command in ("PING", "EXISTS pl:config", "INFO", "KEYS *", f"XRANGE {STREAM} - +"):
            with pytest.raises(redis.exceptions.AuthenticationError):
                stranger.execute_command(*command.split())
    with guarded.client("health", "anything") as health:
        assert health.ping()
        with pytest.raises(redis.exceptions.NoPermissionError):
            health.execute_command("EXISTS", "pl:config")


def test_doing_more_with_the_ledgers_password_than_the_ledger_does(guarded: Guarded) -> None:
    with redis.Redis.from_url(guarded.url) as client:
        client.execute_command("XADD", STREAM, "1-1", "d", "x")
        for command in REFUSED:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
        assert client.xlen(STREAM) == 1


def test_emptying_a_history_from_inside_a_script(guarded: Guarded) -> None:
    with redis.Redis.from_url(guarded.url) as client:
        client.execute_command("XADD", STREAM, "1-1", "d", "x")
        for call in ("'DEL', KEYS[1]", "'XTRIM', KEYS[1], 'MAXLEN', 0", "'SET', 'somebody-elses', 1"):
            script = client.script_load(f"return redis.call({call})")
            with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)acl|permission|can't (access|run)"):
                client.evalsha(script, 1, STREAM)
        assert client.xlen(STREAM) == 1


@pytest.mark.slow
async def test_the_ledgers_whole_work_needs_no_other_right(
    guarded: Guarded, server: RealServer, tmp_path: Path
) -> None:
    """A missing right would tempt an operator to grant the worker every right."""
    with ExitStack() as stack:
        await all_of_it(guarded, stack, tmp_path)
    await brought_from_elsewhere(guarded, server, tmp_path)
    # Settings of the server are read if that is permitted; otherwise `doctor` names those it could not read.
    assert guarded.refusals() <= {("ledger", "config|get")}


async def all_of_it(guarded: Guarded, stack: ExitStack, folder: Path) -> None:
    config = folder / "notify.toml"
    config.write_text(NOTIFY)
    port = free_port()
    commands = (
        ["worker", "notifier", "--config", str(config)],
        ["up", "--listen", f"127.0.0.1:{port}"],
    )
    environment = {
        "PERMISSION_LEDGER_URL_FILE": str(guarded.url_file),
        "PERMISSION_LEDGER_HOME": str(folder / "home"),
        # apprise imports a module that is deprecated; the same filter stands in pyproject.toml.
        "PYTHONWARNINGS": "error,ignore:'imghdr' is deprecated:DeprecationWarning",
    }
    running = [Process(["-m", "workers.cli", *words, "--log-level", "info"], environment) for words in commands]
    archiver = {**environment, "PERMISSION_LEDGER_URL_FILE": str(guarded.archiver_url_file)}
    seals = ("worker", "archiver", "--to", str(folder / "archive"), "--every", "1s", "--older-than", "1ms")
    running.insert(0, Process(["-m", "workers.cli", *seals, "--log-level", "info"], archiver))
    for process in running:
        stack.callback(process.close)
    running[-1].wait_for_word("signs one browser in")
    async with Ledger.connect(guarded.url) as asker, Ledger.connect(guarded.url) as approver:
        await asked_and_answered(asker, approver)
        await expired(asker)
        await present(approver)
    for words in (
        ("ask", "bash", "make", "--session", "ses_cli", "--timeout", "0s", "--request-id", "r9"),
        ("pending",),
        ("reply", "r9", "reject"),
        ("sessions",),
        ("streams",),
        ("approved",),
        ("log", "ses_1"),
        ("verify", "--all"),
        ("export", "--all", "--out", str(folder / "all.jsonl")),
        ("token", "create", "ann", "--role", "approver"),
        ("token", "list"),
        ("inbox",),
        ("close", "ses_1"),
        ("rebuild",),
        ("doctor",),
    ):
        ran = guarded.run(*words, PERMISSION_LEDGER_HOME=str(folder / "home"))
        assert "NOPERM" not in ran.err + ran.out, ran
    running[0].wait_for_word("archiver sealed ")
    assert [process.end() for process in running] == [0] * len(running)
    assert [line for process in running for line in process.complained if "NOPERM" in line] == []


async def asked_and_answered(asker: Ledger, approver: Ledger) -> None:
    session = await asker.session("ses_1", project="shop", rules=ASK)
    await session.submit("bash", ["make"], always=["make *"], request_id="r")
    waiter = asyncio.create_task(session.wait("r"))
    await wait_until_async(lambda: session.stream.observed, "the waiter")
    await (await approver.attach("ses_1")).reply("r", "always", actor="ann")
    assert (await waiter).outcome == "allowed"
    await session.submit("bash", ["ls"], request_id="r2")
    await session.cancel("r2")
    [made] = await approver.approved_in_project("shop")
    await approver.revoke(made.grant.grant_id)


async def expired(asker: Ledger) -> None:
    session = await asker.session("ses_2", rules=ASK, timeouts=Timeouts(unattended=0.05))
    await session.submit("bash", ["make"], request_id="late")
    assert (await session.wait("late")).outcome == "expired"


async def present(approver: Ledger) -> None:
    session = await approver.session("ses_1", answering="lock-holder")
    await session.connect("phone", actor="ann")
    await session.take_lock("phone", actor="ann")
    await session.disconnect("phone", actor="ann")
    await approver.connect_inbox("page", actor="ann")
    await approver.renew_inbox("page", actor="ann")
    await approver.disconnect_inbox("page", actor="ann")


async def brought_from_elsewhere(guarded: Guarded, server: RealServer, folder: Path) -> None:
    """Import sessions of another ledger; and append with replication, as far as this server has it."""
    async with Ledger.connect(server.url) as other:
        await (await other.session("ses_other", rules=ASK)).submit("bash", ["make"], request_id="r")
    CommandLine(server.url)("export", "--all", "--out", folder / "other.jsonl", code=0)
    guarded.run("import", folder / "other.jsonl", code=0)
    async with Ledger.connect(guarded.url, durability=Durability(wait_replicas=0, wait_aof=False)) as ledger:
        assert [one.request.request_id for one in await ledger.pending("ses_other")] == ["r"]


def test_reading_the_password_from_a_file_or_from_the_servers_rules(guarded: Guarded) -> None:
    password = str(urlsplit(guarded.url).password)
    assert stat.S_IMODE(guarded.url_file.stat().st_mode) == 0o600
    assert len(password) >= 40
    assert password not in guarded.acl.read_text()
    assert f"#{hashlib.sha256(password.encode()).hexdigest()}" in guarded.acl.read_text()


def test_the_archiver_alone_may_seal_and_has_a_password_of_its_own(guarded: Guarded) -> None:
    url = guarded.archiver_url_file.read_text().strip()
    assert urlsplit(url).password != urlsplit(guarded.url).password
    digest = hashlib.sha256(str(urlsplit(url).password).encode()).hexdigest()
    assert f"user archiver on #{digest} {SEALING_RIGHTS}\n" in guarded.acl.read_text()
    assert stat.S_IMODE(guarded.archiver_url_file.stat().st_mode) == 0o600


def test_a_second_start_keeps_the_password_and_renews_the_rights(tmp_path: Path) -> None:
    run, url, acl = CommandLine("memory://"), tmp_path / "url", tmp_path / "users.acl"
    words = ("server-user", "--server", "redis://redis:6379/0", "--url-file", url, "--acl-file", acl)
    run(*words, code=0)
    before = (url.read_text(), acl.read_text())
    acl.write_text("user ledger on nopass ~* +@all\n")
    run(*words, code=0)
    assert (url.read_text(), acl.read_text()) == before


@pytest.mark.parametrize("server", ["redis", "http://redis", "redis://", "redis://ann:secret@redis"])
def test_a_server_that_cannot_carry_the_password_is_refused(tmp_path: Path, server: str) -> None:
    words = ("--url-file", tmp_path / "url", "--acl-file", tmp_path / "users.acl")
    ran = CommandLine("memory://")("server-user", "--server", server, *words, code=12)
    assert f"`{server.replace('secret', '***')}` cannot carry a password" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_the_guide_tells_operators_to_give_exactly_these_rights() -> None:
    assert f"ACL SETUSER ledger on >PASSWORD {LEAST_RIGHTS}\n" in text_of("docs/guides/operating.md")


# --- compose.yaml -----------------------------------------------------------------------------------------------------


def test_reaching_the_server_of_the_containers_from_outside() -> None:
    redis_service = SERVICES["redis"]
    assert "ports" not in redis_service
    assert redis_service["networks"] == ["log"]
    assert COMPOSE["networks"]["log"] == {"internal": True}


@pytest.mark.parametrize("name", SERVICES)
def test_gaining_rights_from_inside_a_container(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert {"privileged", "cap_add", "pid", "devices"} & set(service) == set()


def images() -> list[str]:
    """Return every image that is fetched: those of services, and the Dockerfile's base images."""
    of_services = [service["image"] for service in SERVICES.values() if "build" not in service]
    words = [line.split() for line in text_of("Dockerfile").splitlines() if line.startswith("FROM ")]
    stages = {line[3] for line in words if len(line) > 2}
    return of_services + [line[1] for line in words if line[1] not in stages]


@pytest.mark.parametrize("image", images())
def test_putting_another_image_under_the_same_name(image: str) -> None:
    name, _, digest = image.partition("@sha256:")
    assert ":" in name, "for people, the version stands before the digest"
    assert len(digest) == 64
    assert set(digest) <= set("0123456789abcdef")


def test_finding_a_password_in_the_repository() -> None:
    assert [
        name for name, service in SERVICES.items() if "PERMISSION_LEDGER_URL" in service.get("environment", {})
    ] == []
    assert "requirepass" not in text_of("compose.yaml")


# --- doctor -----------------------------------------------------------------------------------------------------------


def access(run: CommandLine) -> tuple[bool, str]:
    """Return the finding of `doctor` on access to the server."""
    [row] = [row for row in run("doctor", "--json").rows if row["check"] == "access"]
    return row["ok"], row["text"]


def test_using_a_server_that_asks_for_no_password_over_tcp(start_server: StartServer) -> None:
    port = free_port()
    server = start_server(options={"port": str(port)})
    for url in (f"redis://127.0.0.1:{port}", server.url):
        is_well, text = access(CommandLine(url))
        assert not is_well, "also when the ledger itself comes by the socket"
        assert f"whoever reaches port {port}" in text
    assert CommandLine(server.url)("doctor").code == 11


def test_using_a_socket_that_everybody_on_the_machine_may_open(start_server: StartServer) -> None:
    server = start_server()
    run = CommandLine(server.url)
    assert access(run)[0]
    server.socket.chmod(0o777)
    assert access(run)[0], "its folder is ours alone"
    server.socket.parent.chmod(0o711)
    is_well, text = access(run)
    assert not is_well
    assert f"`{server.socket}`" in text


def test_a_server_that_wants_the_password_is_well(guarded: Guarded) -> None:
    assert access(guarded.run) == (True, "the server wants a password or a certificate")


def test_a_user_without_a_password_who_may_not_read_the_ledger_is_no_way_in(start_server: StartServer) -> None:
    server = start_server(options={"port": str(free_port())})
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "ledger", "on", ">secret", "allkeys", "allchannels", "allcommands")
        client.execute_command("ACL", "SETUSER", "default", "resetkeys", "-@all", "+ping")
    by_user = f"unix://ledger:secret@{server.socket}"
    assert access(CommandLine(by_user))[0]


def test_an_embedded_server_is_open_to_its_owner_only(tmp_path: Path) -> None:
    assert access(CommandLine(f"embedded://{tmp_path}"))[0]
