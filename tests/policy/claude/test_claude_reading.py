"""Commands that the hardened profile of the dialect `claude` runs without a rule: those that only read the project."""

from __future__ import annotations

from typing import Any

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from tests.support.rows import every

CWD, HOME = "/home/ann/shop", "/home/ann"
FACTS = {"src": "dir", "notes.txt": "file", "away": "-> /etc", "/etc": "dir", "/etc/passwd": "file"}


def verdict(command: str, profile: str = "hardened", **permissions: Any) -> Verdict:
    layer = Layer("project", config={"permissions": permissions})
    options = {"cwd": CWD, "home": HOME, "profile": profile, "fs": FACTS}
    return compile_policy(PolicySource("claude", (layer,), options)).evaluate(_bash(command)).verdict


def _bash(command: str) -> Call:
    return Call("Bash", (), "Bash", {"command": command})


@every(
    "command",
    [
        "tac ~/.ssh/id_rsa",
        "expand /etc/passwd",
        "unexpand -a /etc/passwd",
        "du -a /etc",
        "rev ../secret",
        "fold -w 10 /etc/passwd",
        "cmp notes.txt /etc/passwd",
        "comm src/a ../b",
        "diff --from-file=/etc/passwd notes.txt",
        "wc --files0-from=/etc/passwd",
        "date -r /etc/passwd",
        "tree /etc",
        "fd x /etc",
        "tac away/passwd",
        "ls src && tac /etc/passwd",
        "command tac /etc/passwd",
        "wc -l < /etc/passwd",
        "wc -l < away/passwd",
        "find /etc | xargs wc -l",
        "ls | xargs cat",
    ],
)
def test_what_a_command_looks_at_outside_the_project_is_asked_where_no_rule_allows_it(command: str) -> None:
    assert verdict(command) is Verdict.ASK


@every(
    "command",
    [
        "tac notes.txt",
        "expand -t 4 src/a.py",
        "du -sh . src",
        "rev ./notes.txt",
        "diff -u notes.txt src/notes.txt",
        f"tac {CWD}/notes.txt",
        "grep -rn /api/users src",
        "basename /usr/lib/x.so .so",
        "echo /etc/passwd",
        "tr / _",
        "cut -d/ -f2 notes.txt",
        "git log -- /etc",
        "pgrep -f /usr/bin/node",
        "which -a /usr/bin/node",
        "date +%Y/%m/%d",
        "ps aux",
        "seq 1 3",
        "wc -l < notes.txt",
        "tr a b < src/a.py | sort",
        "find . -name '*.py' | xargs wc -l",
        "find src -type f | xargs grep -l x",
    ],
)
def test_what_a_command_looks_at_inside_the_project_needs_no_rule(command: str) -> None:
    assert verdict(command) is Verdict.ALLOW


def test_a_rule_for_the_folder_lets_it_look_outside_and_one_for_the_command_does_not() -> None:
    assert verdict("tac /etc/passwd", allow=["Read(//etc/**)"]) is Verdict.ALLOW
    assert verdict("tac /etc/passwd", allow=["Bash(tac *)"]) is Verdict.ASK
    assert verdict("tac /etc/passwd", allow=["Read(//usr/**)", "Bash(rev *)"]) is Verdict.ASK
    assert verdict("tac /etc/passwd", profile="faithful") is Verdict.ASK


@every(
    "command",
    [
        "date 010100002026",
        "date -s x",
        "jq env x",
        "jq '$ENV.X' notes.txt",
        "ps eww",
        "hostname other",
        "ifconfig eth0 down",
        "tput reset",
        "man -P evil x",
        "printf -v PATH x",
        "git reflog expire --all",
        "git branch other",
        "git branch -D other",
        "git branch --merged main -D other",
        "git tag v1",
        "git tag -l -d v1",
        "git stash",
        "git remote add a b",
        "git config user.name x",
        "git log --output=x",
        "git diff --ext-diff",
        "git grep -O x",
        "git show --textconv x",
        "git -C /x status",
        "git -c core.pager=x status",
        "docker -H tcp://x ps",
        "sort -o x y",
        "uniq a b",
        "find . -delete",
        "find . -fprint x",
        "fd -x rm",
        "tree -o x",
        "rg --pre x y",
        "sed 's/a/b/e' notes.txt",
        "sed -i s/a/b/ notes.txt",
        "ls | xargs rm",
        "/bin/ls",
        "NODE_OPTIONS=x ls",
        "ls; other",
        "timeout 5 ls",
        "ls > out",
        "for i in a; do ls; done",
    ],
)
def test_what_may_do_more_than_look_needs_a_rule(command: str) -> None:
    assert verdict(command) is Verdict.ASK
    assert verdict(command, profile="faithful") is Verdict.ASK
