"""URLs: accepted and refused ones, and their secrets, which are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio.connection import parse_url

from ledger.core.errors import InputError
from ledger.stores.durability import Durability, durability_in
from ledger.stores.memory import MemoryStore
from ledger.stores.redis.addresses import _split_addresses, _target
from ledger.stores.redis.link import ServerTarget
from ledger.stores.redis.store import RedisStore
from ledger.stores.urls import default_home, embedded_folder, open_store, redact


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6380/2",
        "redis://user:pass@localhost",
        "rediss://:pass@localhost:6380",
        "rediss://localhost?ssl_cert_reqs=required&ssl_ca_certs=/etc/ssl/ca.pem",
        "unix:///run/redis.sock",
        "unix:///run/redis.sock?db=2",
        "unix://user:pass@/run/re@dis.sock",
        "redis+cluster://localhost",
        "redis+cluster://me:pass@localhost:7000,127.0.0.1:7001,[::1]:7002?wait_replicas=1&wait_ms=200",
        "rediss+cluster://localhost:7000?ssl_ca_certs=/etc/ssl/ca.pem",
        "redis+sentinel://localhost/ledger",
        "redis+sentinel://me:pass@localhost:26379,127.0.0.1/ledger/2?sentinel_password=other&wait_aof=1",
        "rediss+sentinel://localhost/ledger",
        "rediss+sentinel://localhost/ledger?sentinel_tls=yes&ssl_ca_certs=/etc/ssl/ca.pem",
    ],
)
def test_urls_of_servers_open_a_store_without_connecting(url: str) -> None:
    assert isinstance(open_store(url), RedisStore)


@pytest.mark.parametrize(
    ("url", "plain", "addresses"),
    [
        (
            "rediss+cluster://a:1,b?ssl_ca_certs=/etc/ca.pem",
            "rediss://a:1?ssl_ca_certs=/etc/ca.pem",
            [("a", 1), ("b", 6379)],
        ),
        ("redis+cluster://me:x%2Fy@[::1]:2,a", "redis://me:x%2Fy@[::1]:2", [("::1", 2), ("a", 6379)]),
        ("redis+sentinel://a,b/ledger/2?x=/y", "redis://a:6379/ledger/2?x=/y", [("a", 6379), ("b", 6379)]),
    ],
)
def test_a_url_of_several_servers_keeps_all_that_stands_behind_them(
    url: str, plain: str, addresses: list[tuple[str, int]]
) -> None:
    assert _split_addresses(url, 6379) == (plain, addresses)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://", ServerTarget()),
        ("redis://h:6380/2", ServerTarget(("h", 6380), database=2)),
        ("redis://h/2?db=3&db=4", ServerTarget(("h", 6379), database=3)),
        ("redis://h/ledger", ServerTarget(("h", 6379))),
        ("redis://me:x%2Fy%25@[::1]:1", ServerTarget(("::1", 1), username="me", password="x/y%")),
        ("redis://:p@h", ServerTarget(("h", 6379), password="p")),
        ("redis://h?username=me&password=a%252F", ServerTarget(("h", 6379), username="me", password="a%2F")),
        ("redis://me:p@h?username=you&password=q", ServerTarget(("h", 6379), username="me", password="p")),
        ("unix:///run/a%20b.sock?db=2", ServerTarget(path="/run/a b.sock", database=2)),
        ("unix://me:p@/run/re@dis.sock", ServerTarget(path="/run/re@dis.sock", username="me", password="p")),
    ],
)
def test_a_url_names_a_server_a_user_and_a_database_as_redis_py_reads_it(url: str, target: ServerTarget) -> None:
    assert _target(url) == target
    theirs = parse_url(url)
    ours = {
        **({"path": target.path} if target.path else dict(zip(("host", "port"), target.address, strict=True))),
        "username": target.username,
        "password": target.password,
        "db": target.database,
    }
    usual = {"host": "localhost", "port": 6379, "username": "", "password": "", "db": 0}
    assert {name: theirs.get(name, usual.get(name)) for name in ours} == ours


def test_a_memory_without_a_name_is_new_each_time_and_one_with_a_name_is_shared() -> None:
    def server_of(url: str) -> object:
        store = open_store(url)
        assert isinstance(store, MemoryStore)
        return store._server

    assert server_of("memory://") is not server_of("memory://")
    assert server_of("memory://shared-name") is server_of("memory://shared-name")
    assert server_of("memory://shared-name") is not server_of("memory://other-name")


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost", "redis:/localhost", "REDIS//x", "mysql://x"])
def test_other_urls_are_refused_with_those_that_are_known(url: str) -> None:
    with pytest.raises(InputError, match="use one of redis://, rediss://, unix://, redis"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:port",
        "redis://localhost:99999",
        "redis://[::1",
        "unix://",
        "redis://localhost?no_such_option=1",
        "redis://localhost?socket_keepalive=perhaps&health_check_interval=soon",
        "redis+cluster://",
        "redis+cluster://localhost:7000,,localhost:7001",
        "redis+cluster://localhost:port",
        "redis+cluster://localhost/2",
        "redis+sentinel://localhost",
        "redis+sentinel://localhost/ledger/two",
        "redis+sentinel://localhost/ledger?sentinel_tls=yes",
        "rediss+sentinel://localhost/ledger?sentinel_tls=perhaps",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_before_anything_connects(url: str) -> None:
    with pytest.raises(InputError, match=r"the URL `.*` cannot be read"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/1", "redis://localhost:6379/1"),
        ("redis://:s3cret@localhost:6379/1", "redis://:***@localhost:6379/1"),
        ("rediss://me:s3cret@localhost", "rediss://me:***@localhost"),
        ("redis://s3cret@localhost", "redis://***@localhost"),
        ("unix://:s3cret@/run/redis.sock?db=1", "unix://:***@/run/redis.sock?db=1"),
        ("unix:///run/re@dis.sock", "unix:///run/re@dis.sock"),
        ("redis://localhost?username=me&password=s3cret", "redis://localhost?username=me&password=***"),
        ("redis://localhost?db=1&ssl_password=s3cret", "redis://localhost?db=1&ssl_password=***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize(
    ("url", "plain", "durability"),
    [
        ("redis://h", "redis://h", Durability()),
        ("redis://h?wait_replicas=2&db=1", "redis://h?db=1", Durability(wait_replicas=2)),
        ("unix:///s?wait_aof=1&wait_ms=50", "unix:///s", Durability(wait_aof=True, wait_ms=50)),
        ("redis://h/1?wait_aof=0", "redis://h/1", Durability()),
    ],
)
def test_a_urls_query_says_how_safe_a_grant_must_be(url: str, plain: str, durability: Durability) -> None:
    assert durability_in(url) == (plain, durability)


@pytest.mark.parametrize(
    "query", ["wait_replicas=-1", "wait_replicas=x", "wait_replicas=99", "wait_ms=0", "wait_ms=9999999", "wait_aof=yes"]
)
def test_a_demand_that_cannot_be_had_is_refused(query: str) -> None:
    with pytest.raises(InputError, match=query.partition("=")[0]):
        open_store(f"redis://localhost?{query}")


SLOPPY = [
    "redis://:s3cret/more@localhost:6379",
    "redis://me:s3cret#more@localhost",
    "redis://me:s3cret?more@localhost",
    "redis://:s3cret@more@localhost:x",
    "redis://:12345/s3cret@localhost",
    "redis://:s3cret[@localhost",
    "redis://[:s3cret@localhost",
    "mysql://me:s3cret@localhost",
    "mysql://me:s3/s3cret@localhost",
    "redis://localhost:x?password=s3cret",
    "unix://:s3cret@",
    "redis+cluster://:s3cret@localhost:x,localhost",
    "redis+cluster://:s3cret/x@localhost,localhost",
    "redis+sentinel://:s3cret@localhost",
]


@pytest.mark.parametrize("url", SLOPPY)
def test_a_password_that_makes_a_url_unreadable_is_not_told(url: str) -> None:
    with pytest.raises(InputError) as caught:
        open_store(url)
    told = f"{caught.value} {caught.value.as_json()} {caught.value.__cause__ or ''}"
    assert "s3" not in told
    assert "12345" not in told
    assert "s3" not in redact(url)


def test_an_embedded_folder_is_the_urls_path_or_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert embedded_folder("embedded:///data/my%20ledger") == Path("/data/my ledger")
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "named"))
    assert embedded_folder("embedded://") == tmp_path / "named"
    monkeypatch.delenv("PERMISSION_LEDGER_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_home() == tmp_path / "data" / "permission-ledger"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_home() == tmp_path / ".local" / "share" / "permission-ledger"
