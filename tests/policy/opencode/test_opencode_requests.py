"""Requests of each tool: permission, patterns, the reach of `always`, and directories outside the project."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Call, Layer, Part, PolicySource, Verdict
from ledger.policy.opencode import OpenCodePolicy, OpenCodeRequest
from ledger.policy.opencode.requests import PatchedFile, patched_files
from tests.support.rows import every

FILES = {"../.git": "dir", "../outside": "dir", "../../etc": "dir", "link": "-> /etc"}
PATCH = """*** Begin Patch
*** Add File: src/new.ts
+*** Add File: not-this-one.ts
*** Update File: src/old.ts
*** Move to: /etc/moved.ts
@@ class A
-a
+b
*** Delete File: ../gone.ts
*** End Patch"""


def policy(**options: Any) -> OpenCodePolicy:
    return OpenCodePolicy(PolicySource(options={"cwd": "/repo/app", "home": "/home/ann", "fs": FILES, **options}))


def request(tool: str, value: Any, **options: Any) -> OpenCodeRequest | None:
    return policy(**options).request(Call("x", (), tool, value))


OUTSIDE = (("/etc/*",),)


@every(
    ("tool", "value", "asked"),
    [
        ("read", {"filePath": "src/a.ts"}, OpenCodeRequest("read", ("app/src/a.ts",))),
        ("read", {"filePath": "/repo"}, OpenCodeRequest("read", ("",))),
        ("read", {"filePath": "/repo/other/x"}, OpenCodeRequest("read", ("other/x",))),
        ("read", {"filePath": "/etc"}, OpenCodeRequest("read", ("../etc",), directories=OUTSIDE)),
        ("read", {"filePath": "/etc/passwd"}, OpenCodeRequest("read", ("../etc/passwd",), directories=OUTSIDE)),
        (
            "read",
            {"filePath": "x/../../../etc/passwd"},
            OpenCodeRequest("read", ("../etc/passwd",), directories=OUTSIDE),
        ),
        ("write", {"filePath": "a", "content": ""}, OpenCodeRequest("edit", ("app/a",))),
        ("edit", {"filePath": "/etc/x"}, OpenCodeRequest("edit", ("../etc/x",), directories=OUTSIDE)),
        ("multiedit", {"filePath": "a", "edits": []}, OpenCodeRequest("edit", ("app/a",))),
        (
            "apply_patch",
            {"patchText": PATCH},
            OpenCodeRequest(
                "edit", ("app/src/new.ts", "app/src/old.ts", "gone.ts"), directories=OUTSIDE, more=("../etc/moved.ts",)
            ),
        ),
        ("glob", {"pattern": "**/*.ts"}, OpenCodeRequest("glob", ("**/*.ts",))),
        ("glob", {"pattern": "*", "path": "/opt/x"}, OpenCodeRequest("glob", ("*",), directories=(("/opt/x/*",),))),
        ("grep", {"pattern": "a.b", "path": "/etc"}, OpenCodeRequest("grep", ("a.b",), directories=OUTSIDE)),
        ("grep", {"pattern": "a", "path": "/etc/passwd"}, OpenCodeRequest("grep", ("a",), directories=OUTSIDE)),
        ("list", {}, OpenCodeRequest("list", ("app",))),
        ("list", {"path": "/etc"}, OpenCodeRequest("list", ("../etc",), directories=OUTSIDE)),
        ("lsp", {"operation": "hover", "filePath": "/etc/x"}, OpenCodeRequest("lsp", ("*",), directories=OUTSIDE)),
        ("webfetch", {"url": "https://a.example/"}, OpenCodeRequest("webfetch", ("https://a.example/",))),
        ("websearch", {"query": "redis"}, OpenCodeRequest("websearch", ("redis",))),
        ("codesearch", {"query": "redis"}, OpenCodeRequest("codesearch", ("redis",))),
        ("task", {"subagent_type": "explore"}, OpenCodeRequest("task", ("explore",))),
        ("skill", {"name": "deploy"}, OpenCodeRequest("skill", ("deploy",), ("deploy",))),
        ("todowrite", {"todos": []}, OpenCodeRequest("todowrite", ("*",))),
        ("todoread", None, OpenCodeRequest("todoread", ("*",))),
        ("question", {"questions": []}, OpenCodeRequest("question", ("*",))),
        ("doom_loop", {"tool": "bash"}, OpenCodeRequest("doom_loop", ("bash",), ("bash",))),
        ("external_directory", {"filepath": "/etc/x"}, OpenCodeRequest("external_directory", ("/etc/*",), ("/etc/*",))),
        ("external_directory", {"filepath": "/repo/x"}, OpenCodeRequest("external_directory", (), ())),
        ("github_search", {"q": "x"}, OpenCodeRequest("github_search", ("*",))),
    ],
)
def test_a_tool_asks_about_what_it_touches(tool: str, value: Any, asked: OpenCodeRequest) -> None:
    assert request(tool, value) == asked


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("bash", {}),
        ("bash", {"command": ["rm"]}),
        ("bash", {"command": "ls", "workdir": 1}),
        ("bash", {"command": "a" * 70_000}),
        ("read", {"path": "a"}),
        ("write", {"filePath": ""}),
        ("apply_patch", {"patchText": "*** Update File: a"}),
        ("grep", {}),
        ("webfetch", {"url": 1}),
        ("task", "explore"),
    ],
)
def test_an_input_that_does_not_say_what_it_is_about_is_asked_whatever_the_rules_say(tool: str, value: Any) -> None:
    allowing = OpenCodePolicy(PolicySource(layers=(Layer("p", config={"permission": "allow"}),)))
    judged = allowing.evaluate(Call(tool, (), tool, value))
    assert (judged.verdict, judged.parts) == (Verdict.ASK, (Part(tool, Verdict.ASK, liftable=False),))
    assert judged.reason == f"no patterns can be worked out from the input of `{tool}`, so a person must look at it"


def test_a_patch_names_its_files_and_no_line_of_their_content() -> None:
    assert patched_files(PATCH) == (
        PatchedFile("src/new.ts"),
        PatchedFile("src/old.ts", "/etc/moved.ts"),
        PatchedFile("../gone.ts"),
    )


def test_hardened_judges_where_a_patch_moves_a_file_to_and_where_a_link_leads() -> None:
    call = Call("edit", (), "apply_patch", {"patchText": PATCH})
    texts = [[part.text for part in policy(profile=p).evaluate(call).parts] for p in ("faithful", "hardened")]
    assert [texts[1][:3], texts[1][3:]] == [texts[0], ["../etc/moved.ts"]]
    linked = {"filePath": "link/passwd"}
    found = [request("read", linked, profile=profile) for profile in ("faithful", "hardened")]
    asked = OpenCodeRequest("read", ("app/link/passwd",))
    assert found == [asked, OpenCodeRequest("read", ("app/link/passwd",), directories=(("/repo/app/link/*",),))]


@pytest.mark.parametrize("command", ["rm link/x", "cat 'link/x'", "cd link", "rm -r link/*", "rm link/../etc/x"])
def test_faithful_asks_about_the_folder_that_a_link_leads_to(command: str) -> None:
    """opencode.md, bash tool: paths are resolved via realpath."""
    line = Call("bash", (), "bash", {"command": command})
    for edition in ("current", "opencode.md"):
        assert policy(profile="faithful", edition=edition).evaluate(line).ask_first == (
            Call("external_directory", ("/etc/*",)),
        )


def test_faithful_asks_about_no_link_that_stays_inside() -> None:
    line = Call("bash", (), "bash", {"command": "rm link/x && cd link"})
    for files in ({"link": "-> sub"}, {"../../repo": "-> /srv/repo", "../app": "-> /srv/repo/app"}):
        assert policy(profile="faithful", fs=files).evaluate(line).ask_first == ()


def test_hardened_sees_a_path_outside_behind_a_quoted_name_and_a_wrapper() -> None:
    line = Call("bash", (), "bash", {"command": "'rm' /etc/x; timeout 5 cat /opt/y/z"})
    judged = [policy(profile=profile).evaluate(line).ask_first for profile in ("faithful", "hardened")]
    assert judged == [(), (Call("external_directory", ("/etc/*", "/opt/y/*")),)]


@pytest.mark.parametrize(("profile", "relative"), [("faithful", ()), ("hardened", (("src/*",),))])
def test_without_a_working_directory_nothing_is_known_to_be_inside(profile: str, relative: Any) -> None:
    judge = OpenCodePolicy(PolicySource(options={"profile": profile}))
    asked = [judge.request(Call("x", (), "read", {"filePath": path})) for path in ("src/a.ts", "/repo/a.ts")]
    assert [one.directories if one else None for one in asked] == [relative, (("/repo/*",),)]


def test_outside_of_a_repository_the_worktree_holds_nothing_but_the_directory() -> None:
    found = request("read", {"filePath": "/repo/other"}, worktree="/")
    assert found == OpenCodeRequest("read", ("repo/other",), directories=(("/repo/*",),))


def test_a_call_that_runs_in_another_folder_is_measured_by_where_the_agent_was_started() -> None:
    call = Call("read", (), "read", {"filePath": "passwd"}, "/etc")
    assert policy().request(call) == OpenCodeRequest("read", ("../etc/passwd",), directories=OUTSIDE)


def test_patterns_of_the_caller_stand_unless_they_are_those_of_the_input() -> None:
    value = {"command": "rm /etc/x"}
    own = policy().request(Call("bash", (), "bash", value))
    assert own is not None
    assert policy().request(Call("bash", ("rm /etc/x",), "bash", value)) == own
    assert policy().request(Call("bash", ("rm y",), "bash", value)) == OpenCodeRequest("bash", ("rm y",), ())
    directory = Call("external_directory", ("/etc/*",), "bash", value)
    assert policy().request(directory) == OpenCodeRequest("external_directory", ("/etc/*",), ())
