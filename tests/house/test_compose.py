"""compose.yaml, the Dockerfile and the Makefile name only commands, options and files that exist."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import tomllib
from typing import Any, Final

import click
import pytest
import yaml

from ledger.stores.embedded.launch import MEMORY_SETTINGS
from tests.house.sources import ROOT, text_of
from workers.gateway import app

COMPOSE: Final[dict[str, Any]] = yaml.safe_load(text_of("compose.yaml"))
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
ONCE: Final = "server-user"
"""Services that run to their end before the server starts."""

OURS: Final = [name for name, service in SERVICES.items() if "build" in service and name != ONCE]
ACL_FOLDER: Final = "/var/lib/permission-ledger/acl"
URL_FILE: Final = "/var/lib/permission-ledger/url/url"
ARCHIVER_FILE: Final = "/var/lib/permission-ledger/archiver/url"
ARCHIVE: Final = "/var/lib/permission-ledger/archive"
HOME: Final = "/var/lib/permission-ledger/home"
RULES: Final = "/etc/permission-ledger/rules"
PUBLIC_URL: Final = "${PERMISSION_LEDGER_PUBLIC_URL:-http://127.0.0.1:8420}"
NOTIFY_FILE: Final = "/etc/permission-ledger/notify.toml"


def instructions(word: str) -> list[str]:
    """Return the arguments of each `word` instruction in the Dockerfile, continued lines joined."""
    lines = text_of("Dockerfile").replace("\\\n", " ").splitlines()
    return [line.removeprefix(word).strip() for line in lines if line.startswith(f"{word} ")]


def arguments(value: str | list[str]) -> list[str]:
    """Return the program and its arguments of a command or a health check, in either notation."""
    words = shlex.split(value) if isinstance(value, str) else list(value)
    if words[0] == "CMD-SHELL":
        return shlex.split(words[1].partition("|")[0])
    return words[1:] if words[0] == "CMD" else words


def all_commands() -> list[list[str]]:
    found = [service[key] for service in SERVICES.values() for key in ("command", "entrypoint") if key in service]
    found += [service["healthcheck"]["test"] for service in SERVICES.values() if "healthcheck" in service]
    found += [json.loads(value) for word in ("CMD", "ENTRYPOINT") for value in instructions(word)]
    found += [f"permission-ledger {words}" for words in re.findall(r"\$\(COMMAND\) (.+)", text_of("Makefile"))]
    return [arguments(value) for value in found]


def command_line() -> click.Group:
    module = importlib.import_module("workers.cli")
    groups = [value for value in vars(module).values() if isinstance(value, click.Group)]
    return max(groups, key=lambda group: len(group.list_commands(click.Context(group, **group.context_settings))))


def accepts(words: list[str]) -> None:
    """Read the arguments as the command line would, without running anything. Raises click.UsageError."""
    command: click.Command = command_line()
    context = click.Context(command, info_name="permission-ledger", **command.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        inner = command.get_command(context, name)
        assert inner is not None, f"`{name}` is no command of `{context.command_path}`"
        command, context = inner, click.Context(inner, parent=context, info_name=name)
    if words != ["--help"]:
        command.make_context(context.info_name, words, parent=context.parent)


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_command_exists_with_its_options(words: list[str]) -> None:
    program, *rest = words
    assert program in {"permission-ledger", "redis-cli", "redis-server", "python"}
    if program == "permission-ledger":
        accepts(rest)


def test_one_server_and_all_that_a_team_needs_are_started() -> None:
    running = {name: (arguments(s["command"]), s.get("deploy", {}).get("replicas", 1)) for name, s in SERVICES.items()}
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
    small = [word for name, value in MEMORY_SETTINGS.items() for word in (f"--{name}", value)]
    made = ["--server", "redis://redis:6379/0", "--url-file", URL_FILE, "--acl-file", f"{ACL_FOLDER}/users.acl"]
    made += ["--archiver-url-file", ARCHIVER_FILE]
    whole = ["--listen", "0.0.0.0:8420", "--public-url", PUBLIC_URL, "--rules", f"{RULES}/opencode.json"]
    assert running == {
        ONCE: (["permission-ledger", "server-user", *made], 1),
        "redis": (["redis-server", *durable, *small, "--aclfile", "/etc/redis-acl/users.acl"], 1),
        "ledger": (["permission-ledger", "up", *whole], 2),
        "archiver": (["permission-ledger", "worker", "archiver", "--to", ARCHIVE], 1),
        "notifier": (["permission-ledger", "worker", "notifier", "--config", NOTIFY_FILE], 1),
    }


def test_the_gateways_are_reached_from_this_machine_only_each_by_a_port_of_its_own() -> None:
    assert SERVICES["ledger"]["ports"] == ["127.0.0.1:8420-8429:8420"], "as many as `--scale` may make"


def test_rules_are_mounted_and_there_are_some_from_the_first_minute() -> None:
    (mounted,) = [one for one in SERVICES["ledger"]["volumes"] if isinstance(one, dict)]
    source = mounted["source"].removeprefix("${PERMISSION_LEDGER_RULES:-").removesuffix("}")
    assert (mounted["target"], mounted["read_only"], mounted["bind"]) == (RULES, True, {"create_host_path": False})
    assert (ROOT / source / "opencode.json").is_file()


def test_only_the_archiver_has_the_user_that_seals_and_it_serves_nobody() -> None:
    has = [name for name in OURS if any("archiver-url" in str(one) for one in SERVICES[name]["volumes"])]
    assert has == ["archiver"]
    assert "ports" not in SERVICES["archiver"]
    assert f"ledger-archive:{ARCHIVE}" in SERVICES["archiver"]["volumes"]
    assert f"ledger-archive:{ARCHIVE}:ro" in SERVICES["ledger"]["volumes"], "sealed sessions are read there"


def test_the_notifier_starts_only_when_asked_for_and_reads_a_file_that_must_be_there() -> None:
    notifier = SERVICES["notifier"]
    _, _, volume = notifier["volumes"]
    assert notifier["profiles"] == ["notify"]
    assert (volume["target"], volume["read_only"], volume["bind"]) == (NOTIFY_FILE, True, {"create_host_path": False})


def test_a_gateway_is_healthy_when_it_reaches_the_ledger() -> None:
    program, _, code = arguments(SERVICES["ledger"]["healthcheck"]["test"])
    routes = app.readiness.paths
    compile(code, "healthcheck", "exec")
    assert (program, "/readyz" in routes, "http://127.0.0.1:8420/readyz" in code) == ("python", True, True)


def test_the_log_lives_in_a_volume_that_is_declared() -> None:
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data", "redis-acl:/etc/redis-acl:ro"]
    assert set(COMPOSE["volumes"]) == {
        *("archiver-url", "ledger-archive", "ledger-home", "ledger-url", "redis-acl", "redis-data")
    }


@pytest.mark.parametrize("name", [name for name in SERVICES if name != ONCE])
def test_every_service_has_a_health_check_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    assert set(service["healthcheck"]) == {"test", "interval", "timeout", "retries", "start_period"}
    assert service["restart"] == "unless-stopped"


def test_the_password_is_made_before_the_server_starts_and_only_its_digest_reaches_it() -> None:
    assert SERVICES["redis"]["depends_on"] == {ONCE: {"condition": "service_completed_successfully"}}
    url, acl = URL_FILE.rpartition("/")[0], ACL_FOLDER
    archiver = f"archiver-url:{ARCHIVER_FILE.rpartition('/')[0]}"
    assert SERVICES[ONCE]["volumes"] == [f"ledger-url:{url}", archiver, f"redis-acl:{acl}"]
    assert [name for name in OURS if f"ledger-url:{url}:ro" not in SERVICES[name]["volumes"]] == ["archiver"]
    assert f"{archiver}:ro" in SERVICES["archiver"]["volumes"]


def test_the_folders_of_the_secrets_are_the_users_own_in_the_image() -> None:
    made = " ".join(instructions("RUN")[-1].split())
    assert f"--owner ledger --mode 0700 {URL_FILE.rpartition('/')[0]}" in made
    for folder in (HOME, ARCHIVE, ARCHIVER_FILE.rpartition("/")[0]):
        assert f"--owner ledger --mode 0700 {folder}" in made
    assert f"--owner ledger --mode 0755 {ACL_FOLDER}" in made
    uid = re.search(r"--uid (\d+) ", made)
    assert uid
    assert f"/home/ledger:uid={uid[1]},gid={uid[1]},mode=0700" in COMPOSE["x-ours"]["tmpfs"]


@pytest.mark.parametrize("name", OURS)
def test_every_worker_waits_for_the_server_and_is_asked_about_the_same_one(name: str) -> None:
    service = SERVICES[name]
    url_file = ARCHIVER_FILE if name == "archiver" else URL_FILE
    assert service["environment"] == {"PERMISSION_LEDGER_URL_FILE": url_file, "PERMISSION_LEDGER_HOME": HOME}
    assert f"ledger-home:{HOME}" in service["volumes"]
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
    asked = arguments(service["healthcheck"]["test"])
    assert name == "ledger" or asked == ["permission-ledger", "doctor"]


def copied() -> list[str]:
    """Return the paths that the build copies from the checkout."""
    lines = [value.split() for value in instructions("COPY")]
    return sorted(source for words in lines if not words[0].startswith("--from") for source in words[:-1])


def let_through(file: str) -> bool:
    """Return whether .dockerignore, which first excludes everything, includes this path again."""
    lines = [line for line in text_of(".dockerignore").splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    return any(line.startswith("!") and f"{file}/".startswith(f"{line[1:]}/") for line in lines)


@pytest.mark.parametrize("source", copied())
def test_the_image_is_built_from_files_that_exist_and_are_let_through(source: str) -> None:
    assert ((ROOT / source).exists(), let_through(source)) == (True, True)


def test_the_image_is_built_from_all_that_the_wheel_is_made_of() -> None:
    pyproject = tomllib.loads(text_of("pyproject.toml"))
    project, wheel = pyproject["project"], pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", *wheel["packages"], *project["license-files"]}
    if "readme" in project:
        needed.add(project["readme"])
    assert needed <= set(copied())
