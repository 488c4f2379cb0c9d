"""The image: what it is said to be, the user that it runs as, its health check, and the images it is made from."""

from __future__ import annotations

import re
from typing import Final

import click
import pytest

from ledger.core.times import parse_duration
from tests.house.dockerfile import Dockerfile, DockerfileError, parse
from tests.house.sources import text_of
from workers.cli import cli

IMAGE: Final[Dockerfile] = parse(text_of("Dockerfile"))
LABELS: Final = IMAGE.made.values("LABEL")
OCI: Final = "org.opencontainers.image."
PINNED: Final = re.compile(r"(?P<name>[a-z0-9./-]+):(?P<tag>[\w.-]+)@(?P<digest>sha256:[0-9a-f]{64})")
UID: Final = "10001"

NOT_SAID: Final = {"authors", "created", "documentation", "ref.name", "source", "url", "vendor"}
"""Names of the specification that are left out: there is no published address; a time of the build would make each
build another image; a registry names the reference."""

SAID: Final = {"base.digest", "base.name", "description", "licenses", "revision", "title", "version"}


def test_every_label_is_of_the_specification_and_has_a_value() -> None:
    assert {name.removeprefix(OCI) for name in LABELS} == SAID
    assert all(name.startswith(OCI) and value for name, value in LABELS.items())
    assert not SAID & NOT_SAID


def test_version_and_commit_are_those_that_the_build_is_given() -> None:
    # Declared in another stage, they would be empty in this one.
    given = {name for one in IMAGE.made.all("ARG") for name in one.pairs}
    assert given == {"VERSION", "REVISION"}
    assert (LABELS[f"{OCI}version"], LABELS[f"{OCI}revision"]) == ("0.0.0+unknown", "unknown")


def test_the_labels_name_the_base_that_is_taken() -> None:
    [base] = set(IMAGE.fetched)
    found = PINNED.fullmatch(base)
    assert found is not None
    assert LABELS[f"{OCI}base.name"] == f"docker.io/library/{found['name']}:{found['tag']}"
    assert LABELS[f"{OCI}base.digest"] == found["digest"]


def test_every_image_that_is_fetched_is_pinned_by_digest() -> None:
    assert [one for one in IMAGE.fetched if PINNED.fullmatch(one) is None] == []


def test_the_image_runs_as_a_user_without_rights_whose_number_a_cluster_can_check() -> None:
    assert [one.text for one in IMAGE.made.all("USER")] == [f"{UID}:{UID}"]
    [run] = IMAGE.made.all("RUN")
    assert f"groupadd --gid {UID} ledger" in run.text
    assert f"useradd --create-home --uid {UID} --gid {UID} ledger" in run.text
    assert run.line < IMAGE.made.last("USER").line, "nothing is installed by that user"
    assert "sudo" not in run.text


def test_the_health_check_is_a_command_of_ours_without_a_shell_and_has_bounds() -> None:
    [check] = IMAGE.made.all("HEALTHCHECK")
    assert set(check.flags) == {"interval", "timeout", "start-period", "retries"}
    ms = {name: parse_duration(value) or 0 for name, value in check.flags.items() if name != "retries"}
    assert 0 < ms["timeout"] < ms["interval"]
    word, _, command = check.text.partition(" ")
    assert word == "CMD"
    [asked] = parse(f"FROM x\nCMD {command}").made.all("CMD")
    assert asked.is_exec
    assert asked.words == ["permission-ledger", "doctor"]
    assert cli.get_command(click.Context(cli, **cli.context_settings), "doctor") is not None


def test_what_it_runs_is_started_without_a_shell() -> None:
    [command] = IMAGE.made.all("CMD")
    assert command.is_exec
    assert IMAGE.made.all("ENTRYPOINT") == [], "compose.yaml names whole commands"


def test_nothing_is_fetched_beside_the_locked_packages_and_nothing_secret_is_kept() -> None:
    for stage in IMAGE.stages:
        assert stage.all("ADD") == []
        for one in stage.all("RUN"):
            assert re.search(r"\b(curl|wget|git|apt|apt-get)\b", one.text) is None
        installs = [line for one in stage.all("RUN") for line in one.text.split("&&") if "pip install" in line]
        assert [line for line in installs if "--require-hashes" not in line and "--no-index" not in line] == []
        names = [name for word in ("ARG", "ENV") for one in stage.all(word) for name in one.pairs]
        assert [name for name in names if re.search(r"TOKEN|SECRET|PASSWORD|KEY|URL", name)] == []


def test_what_is_copied_from_a_stage_is_copied_from_one_before() -> None:
    for number, stage in enumerate(IMAGE.stages):
        before = {one.name for one in IMAGE.stages[:number]}
        assert [one.flags["from"] for one in stage.all("COPY") if one.flags.get("from", "") not in {"", *before}] == []


# --- the parser -------------------------------------------------------------------------------------------------------


def test_continued_lines_comments_and_flags_are_read_as_a_builder_reads_them() -> None:
    found = parse(
        "ARG TAG=1\n# a comment\nFROM python:3 AS a\nRUN one \\\n  # between\n\n  && two\n"
        'copy --from=b --chown=1:1 "x y" /z\nFROM a\nCMD ["p", "a b"]\n'
    )
    first, last = found.stages
    assert (found.arguments[0].pairs, first.base, first.name, last.base) == ({"TAG": "1"}, "python:3", "a", "a")
    assert first.all("RUN")[0].text.split() == ["one", "&&", "two"]
    [copy] = first.all("COPY")
    assert (copy.flags, copy.words, copy.line) == ({"from": "b", "chown": "1:1"}, ["x y", "/z"], 8)
    assert last.last("CMD").words == ["p", "a b"]
    assert found.fetched == ["python:3", "b"]


def test_variables_have_the_scope_of_their_stage() -> None:
    text = 'FROM x AS a\nARG V=1\nFROM a\nARG W=2\nENV P=/bin:$W\nLABEL one="$W ${P}" two=${N:-none} three=a\\ b\n'
    assert parse(text).made.values("LABEL") == {"one": "2 /bin:2", "two": "none", "three": "a b"}
    with pytest.raises(DockerfileError, match="has no value in this stage"):
        parse(text + "LABEL four=$V\n").made.values("LABEL")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no FROM"),
        ("RUN x\nFROM y", "RUN stands before FROM"),
        ("FROM x\nRUM y", "`RUM` is no instruction"),
        ("FROM x y", "FROM takes an image"),
        ("FROM x AS a\nFROM y AS a", "there are two stages `a`"),
        ("FROM x\nRUN y \\", "the last line is continued"),
        ("FROM x\nRUN <<EOF\ny\nEOF", "here-documents are not known"),
        ("# escape=`\nFROM x", "directives are not known"),
    ],
)
def test_what_the_parser_does_not_know_is_refused(text: str, why: str) -> None:
    with pytest.raises(DockerfileError, match=why):
        parse(text)


@pytest.mark.parametrize("text", ["LABEL a", "LABEL a=1 a=2", "ENV a 1"])
def test_a_label_is_one_new_name_and_value(text: str) -> None:
    with pytest.raises(DockerfileError, match="is not one new NAME=VALUE"):
        parse(f"FROM x\n{text}").made.values(text.split(maxsplit=1)[0])
