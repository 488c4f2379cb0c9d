"""Bridges and hooks name what their user trusts in the project of a call, and bring no changed file as a trusted one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.errors import InputError
from tests.support.trusting import TrustedProject, of_its_own
from workers.bridges.hooks.question import BroughtRules
from workers.bridges.options import BridgeOptions, given_rules, opening
from workers.bridges.tool_calls import FollowedRules
from workers.gateway.provider_settings import read_oidc
from workers.notifier.settings import read_settings
from workers.transport.place import BridgeError
from workers.transport.trusted import (
    TrustListError,
    load_records,
    no_longer_trusted,
    project_of_folder,
    rules_trusted_for,
    trust_file,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrustedProject:
    of_its_own(monkeypatch, tmp_path / "config")
    return TrustedProject(tmp_path / "shop", "claude", {"permissions": {"deny": ["Bash(rm *)"]}})


def test_a_bridge_names_what_is_trusted_for_its_folder_unless_it_brings_rules(project: TrustedProject) -> None:
    below = str(project.folder / "src" / "a")
    said = opening(BridgeOptions(), agent="a", cwd=below)
    assert said["project_rules"] == rules_trusted_for(below) == rules_trusted_for(str(project.folder))
    assert "project_rules" not in opening(BridgeOptions(), agent="a", cwd=str(project.folder.parent))
    brought = opening(BridgeOptions(rules=str(project.rules)), agent="a", cwd=below)
    assert "project_rules" not in brought
    assert "rules_untrusted" not in brought


def test_trusting_other_content_changes_the_name(project: TrustedProject) -> None:
    before = rules_trusted_for(str(project.folder))
    project.write({"permissions": {"allow": ["Bash"]}})
    assert rules_trusted_for(str(project.folder)) == before
    project.trust()
    assert rules_trusted_for(str(project.folder)) not in (None, before)


def test_a_changed_file_of_a_project_is_brought_as_untrusted(project: TrustedProject, tmp_path: Path) -> None:
    brought, followed = BroughtRules(str(project.rules), "claude"), FollowedRules(str(project.rules))
    followed.read()
    before = brought.digest()
    project.write({"permissions": {"allow": ["Bash"]}})
    reason = given_rules(str(project.rules), "claude", None)["rules_untrusted"]
    assert f"`{project.rules}` was changed since it was trusted" in reason
    changed = brought.digest()
    followed.read()
    project.trust()
    assert "rules_untrusted" not in given_rules(str(project.rules), "claude", None)
    assert len({before, changed, brought.digest()}) == 3
    assert followed.have_changed

    unnamed = project.folder / "mine.json"
    unnamed.write_text('{"permissions": {"allow": ["Bash"]}}')
    assert "does not name it" in given_rules(str(unnamed), "claude", None)["rules_untrusted"]
    outside = tmp_path / "mine.json"
    outside.write_text('{"permissions": {"allow": ["Bash"]}}')
    assert "rules_untrusted" not in given_rules(str(outside), "claude", None)


def test_a_link_in_a_project_does_not_bring_its_own_content_as_trusted(project: TrustedProject, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "mine.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    project.rules.unlink()
    project.rules.symlink_to(evil / "mine.json")
    assert "was changed" in given_rules(str(project.rules), "claude", None)["rules_untrusted"]


def test_a_folder_belongs_to_the_nearest_project_of_the_list_whatever_lies_there(
    project: TrustedProject, tmp_path: Path
) -> None:
    inner = TrustedProject(project.folder / "inner", "claude", {})
    other = tmp_path / "link"
    other.symlink_to(project.folder)
    inner.file.unlink()
    for folder, file in (
        (f"{inner.folder}/a/../b", inner.file),
        (f"{inner.folder}/../x", project.file),
        (str(other / "src"), project.file),
        (str(tmp_path), None),
        ("shop", None),
        (None, None),
    ):
        assert project_of_folder(folder, load_records()) == (None if file is None else str(file))


def test_what_is_not_as_trusted_is_listed_with_its_remedy(project: TrustedProject) -> None:
    assert no_longer_trusted(load_records()) == []
    project.rules.unlink()
    [(file, path, remedy)] = no_longer_trusted(load_records())
    assert (file, path, remedy) == (str(project.file), str(project.rules), f"permission-ledger config trust {file}")
    project.file.unlink()
    assert no_longer_trusted(load_records())[0][2] == f"permission-ledger config untrust {file}"
    project.folder.rmdir()
    assert no_longer_trusted(load_records()) == []


def test_a_list_that_others_may_write_stops_every_bridge(project: TrustedProject) -> None:
    Path(trust_file()).chmod(0o666)
    with pytest.raises(TrustListError, match="others may write it"):
        opening(BridgeOptions(), agent="a", cwd=str(project.folder))
    with pytest.raises(BridgeError):
        BroughtRules(str(project.rules), "claude").digest()


@pytest.mark.parametrize(("name", "read"), [("notify", read_settings), ("oidc", read_oidc)])
def test_a_changed_file_that_a_trusted_file_names_is_not_read_at_a_restart(
    project: TrustedProject, name: str, read: object
) -> None:
    file = project.folder / f"{name}.toml"
    project.rules = file  # a file that the project's file names
    file.write_text("# as it was trusted\n")
    project.trust()
    file.write_text('public_url = "https://evil.example.com"\n')
    assert callable(read)
    with pytest.raises(InputError, match=r"was changed since you trusted it; read it, then: permission-ledger config"):
        read(file)
