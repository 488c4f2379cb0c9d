"""The larger plain grammar: lines that it accepts when each command is allowed, and commands that no line may hide."""

from __future__ import annotations

import pytest

from ledger.core.policy import Verdict
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.grammar import STEPS_MAX
from ledger.policy.shell.grammar.nodes import WORDS_MAX
from tests.policy.shell.simple_rules import judge, verdict
from tests.support.rows import every

ALLOW = [
    f"prefix {name}"
    for name in (
        *(
            "ls",
            "cat",
            "echo",
            "printf",
            "grep",
            "wc",
            "head",
            "test",
            "[",
            "git",
            "npm",
            "rg",
            "rm",
            "cp",
            "sed",
            "read",
        ),
        *(
            "export",
            "find",
            "sort",
            "true",
            "date",
            "sleep",
            "wait",
            "kill",
            "command",
            "source",
            ".",
            "set",
            "node",
            "eslint",
        ),
    )
]
HERE = "\"$(cat <<'EOF'\n{}\nEOF\n)\""


def words(line: str) -> list[list[str | None]]:
    analysis = analyse(line)
    assert analysis.plain, analysis.reason
    return [[word.resolved for word in command.words] for command in analysis.commands]


@every(
    "line",
    [
        'for f in src/*.ts; do wc -l "$f"; done',
        "for f in a b\ndo\n  cat $f\ndone",
        'while IFS= read -r line; do echo "$line"; done',
        "until [ -f ready ]; do sleep 1; done",
        "if [ -f package.json ]; then npm test; elif ls; then ls; else echo none; fi",
        "{ ls; echo x; } 2>&1 | head -5",
        "(cd sub && ls) && cat a",
        "! grep -q x a && echo none",
        "sleep 3 & wait",
        'npm test; echo "exit: $?"',
        "X=src; ls $X && cat $X/a.ts",
        "echo $HOME/.config",
        "CI=1 NODE_ENV=test npm test",
        "env CI=1 npm test",
        "export NODE_ENV=test && npm test",
        'git commit -m "$(cat <<\'EOF\'\nFix (all) of it\n\nIt\'s done: "x" $HOME `id`\nEOF\n)"',
        "git log -1 && cat <<'EOF'\n$(id)\nEOF",
        "cat <<EOF\nplain\nEOF",
        "ls {a,b} && cp src/{a,b}.ts lib",
        "echo {1..3}",
        "find src -name '*.ts' -exec grep -l foo {} \\;",
        "find . -name '*.ts' -exec grep -l foo {} +",
        "grep -rl foo src | xargs echo",
        "grep -rl foo src | sort | head -5 | xargs cat",
        "find . -name '*.ts' -print0 | xargs -0 grep -n foo",
        "git ls-files | grep config | xargs -I{} cat {}",
        'find src -type f | while read f; do grep -n x "$f"; done',
        'git diff --name-only main...HEAD | while IFS= read -r f; do cat "$f"; done',
        "grep -rl foo src | xargs -I{} echo {}",
        "command -v node && set -e && source .venv/bin/activate",
        'n=$(ls | wc -l); echo "$n files, $((1 + 2))"',
        "time (ls; ls)",
        "for d in packages/*; do (cd $d && npm test); done",
        "for f in *.ts; do echo ${f}; done",
        "echo a >&2; ls > /dev/null 2>&1",
        "grep -q x <<< 'x y'",
        "if [[ -f package.json ]]; then npm test; fi",
        '[[ -z "$X" ]] && echo none || [[ $X == a* ]]',
        "[[ -n $(ls) ]] && echo some",
        "cat <<EOF\nversion $VERSION in ${HOME}\nEOF",
        "cat $(git ls-files | grep config)",
        'for f in $(find src -name a); do grep -n x "$f"; done',
        "git diff $(git merge-base main HEAD)",
        'sha=$(git rev-parse HEAD); git show "$sha"',
        "git log --oneline $(git merge-base main HEAD)..HEAD",
        'git commit -m "Release $(date +%Y-%m-%d)"',
        'count=$(ls | wc -l); [ "$count" -gt 3 ] && echo many',
        # streams, changed variables, words behind an operand, listings
        "cat <(ls) a",
        'git log --since="$(date +%F)" --author="$X" --oneline',
        'npm test | head; echo "exit ${PIPESTATUS[0]} in ${STAGE:-none} ${FILE%.ts} ${FILE##*/}"',
        "printf '%s\\n' \"$PATH\" | grep -c x",
        "git ls-files '*.py' | xargs grep -n x",
        "wc -l $(git ls-files '*.ts')",
        "git ls-files -o --exclude-standard src | xargs cat",
        "branch=$(git branch --show-current); git log origin/main..$branch --oneline",
    ],
)
def test_a_line_is_allowed_when_each_of_its_commands_is(line: str) -> None:
    assert judge(line, ALLOW).reason is None
    assert verdict(line, ALLOW) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("for f in a 'b c'; do cat \"$f\"; done", [["cat", "a"], ["cat", "b c"]]),
        ("X=-rf; Y=$X; rm $Y /", [["rm", "-rf", "/"]]),
        ('X="a b"; cat "$X"', [["cat", "a b"]]),
        ('X="a b"; cat $X', [["cat", None]]),
        ("ls && X=a; cat $X", [["ls"], ["cat", None]]),
        ("ls && X=a && cat $X", [["ls"], ["cat", "a"]]),
        ("X=a; (X=b; cat $X); cat $X", [["cat", "b"], ["cat", "a"]]),
        ("X=a; if ls; then X=b; fi; cat $X", [["ls"], ["cat", None]]),
        ("X=a; while ls; do cat $X; X=b; done", [["ls"], ["cat", None]]),
        ("X=a; for f in 1 2; do cat $X; X=$f; done", [["cat", "a"], ["cat", "1"]]),
        ("X=a; for f in 1 2; do cat $X; ls && continue; X=$f; done", [["cat", None], ["ls"], ["continue"]] * 2),
        ("X=a; read X; cat $X", [["read", "X"], ["cat", None]]),
        ("X=a & cat $X", [["cat", None]]),
        ("X=a; ls | X=b; cat $X", [["ls"], ["cat", None]]),
        ("echo $(ls a)", [["echo", None], ["ls", "a"]]),
        ("X=$(ls a); echo done", [["ls", "a"], ["echo", "done"]]),
        ("cat x{1..3}.{a,b}", [["cat", "x1.a", "x1.b", "x2.a", "x2.b", "x3.a", "x3.b"]]),
        ("cat <<-EOF\n\tx\n\tEOF\nls", [["cat"], ["ls"]]),
        ("time (ls a)", [["ls", "a"]]),
    ],
)
def test_a_word_has_the_value_that_its_variable_has_there(line: str, seen: list[list[str | None]]) -> None:
    assert words(line) == seen


def test_the_text_of_a_quoted_here_document_is_the_word() -> None:
    assert words("git commit -m " + HERE.format('a\n  it\'s "b"\n\n')) == [["git", "commit", "-m", 'a\n  it\'s "b"']]


@every(
    "line",
    [
        # what a variable stands for is judged
        "for f in --pre=x; do rg $f y; done",
        "for f in -e --pre=./x; do rg a $f; done",
        "X='--pre=x'; rg $X y",
        "X=-; rg ${X}-pre=x y",
        "rg $X y",
        'rg "$X" y',
        "for f in *; do rg $f y; done",
        "for f in src/*; do rg $f y; done",
        "sed $(ls) a",
        "grep -rl foo src | xargs sed -n 1,5p",
        "ls | xargs rm",
        "ls -a | xargs cat",
        "cat list | xargs cat",
        "find / -name x | xargs cat",
        "find .. | xargs cat",
        "find . -printf /etc/%f | xargs cat",
        "find . -name x | sed s,.,/etc/, | xargs cat",
        "grep -o /etc/x a | xargs cat",
        "git diff --name-only /etc/a /etc/b | xargs cat",
        "git diff --name-only a/../../b | xargs cat",
        "find . < x | cat | xargs cat",
        "find . | (echo /etc/x; cat) | xargs cat",
        'find . | while read f; do cat "$f"; done < list',
        "find . | while read f; do echo $(cat list | xargs cat); done",
        "find src | xargs cat; cat list | xargs cat",
        "grep -rl foo src | xargs sed s/a/b/e",
        "find . | xargs -I{} cat /{}",
        "find . | xargs -I{} rg {} x",
        "ls | xargs -I{} rm {}",
        "ls | xargs -a x wc",
        "find . -exec rm {} \\;",
        "find . -exec {} \\;",
        "find . -name x -exec sh -c ls \\;",
        "find . -exec ls {}",
        "find . -delete -exec ls {} \\;",
        # names of commands are never variables
        "while read f; do $f; done",
        "X=ls; $X",
        "$(ls)",
        "for f in ls; do $f; done",
        "timeout 5 $X",
        # paths that nobody knows
        "cat $X",
        'cat "$(echo /etc/passwd)"',
        "cat $(find /etc -name passwd)",
        "cat $(git ls-files; cat list)",
        "cat $(git ls-files | sed s,^,/etc/,)",
        "cat /$(git ls-files)",
        "rg $(git ls-files) x",
        'while read f; do cat "$f"; done',
        "cat src/$X",
        'cat src/*"$X"',
        "git diff $(git log -1)",
        "git diff $(git merge-base $X HEAD)",
        "git diff $(git rev-parse --output=x)",
        "git diff $(git rev-parse HEAD/../..)",
        "git show $X",
        "git commit -m $X",
        "curl $(whoami)",
        "npm run $(whoami)",
        "ls > $X",
        "ls > out$(ls)",
        # special variables
        "PATH=.; ls",
        "PATH=. ls",
        "IFS=x; ls",
        "IFS=x ls",
        "LD_PRELOAD=x ls",
        "GIT_DIR=x git status",
        "PS4='$(id)'; set -x; ls",
        "BASH_ENV=x; ls",
        "NODE_OPTIONS=--require=x npm test",
        "PYTEST_ADDOPTS=x npm test",
        "npm_config_script_shell=x npm test",
        "npm_config_script_shell=x; npm test",
        "path=x; ls",
        "http_proxy=x; ls",
        "CI=$(ls) npm test",
        "CI=$X npm test",
        "x=1 ls",
        "env PATH=. ls",
        "env -S ls",
        "export PATH=.; ls",
        "export X=1; ls",
        "read PATH",
        "read -e x",
        "read -u 3 x",
        "read IFS",
        "read 'a[$(id)]'",
        "for PATH in .; do ls; done",
        "for IFS in x; do ls; done",
        "echo $GITHUB_TOKEN",
        'echo "$AWS_SECRET_ACCESS_KEY"',
        "X=(a b); ls",
        "X+=a; ls",
        "a[$(id)]=1; ls",
        # expansions that do more than look up
        "echo ${x:=a}",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x:-$(rm a)}",
        "echo ${x/a/b}",
        "echo $((a[$(id)]))",
        "echo $((x))",
        "x='a[$(id)]'; echo $((x))",
        "read x; echo $((x + 1))",
        "echo $((x = 1))",
        "echo $[1+1]",
        "echo $'a'",
        'echo $"a"',
        "echo $1",
        "echo $@",
        "echo $x[1]",
        'echo "$x:h"',
        "echo $x{a,b}",
        "echo `ls`",
        "cat <(rm -r a)",
        "cat <(ls)b",
        'git log --output="$X"',
        "git log --since=$X",
        'git log --oneline="$X"',
        "git apply <(ls)",
        "cat ${X:-a}",
        "${X:-ls}",
        "echo ${X:=a}",
        "echo ${X:-$(ls)}",
        "echo ${API_TOKEN:-a}",
        "echo ${X[0]}",
        'printf "$X" a',
        "git ls-files *.py | xargs grep -n x",
        "git ls-files -o | xargs cat",
        "git ls-files --others src | xargs cat",
        "find /srv -name '*.ts' | xargs cat",
        "find / src | xargs cat",
        "branch=$(git branch --show-current); cat ../$branch",
        "cat x<(ls)",
        "bash <(ls)",
        "<(ls)",
        # builtins that evaluate what they are given
        "printf -v x %s a",
        "X=a; printf -vX b; cat $X",
        "printf $X a",
        "printf '%d' \"$X\"",
        "test -v 'a[$(id)]'",
        "[ -v x ]",
        '[ "$X" "$Y" ]',
        "[ $X = a ]",
        '[ "$X" -eq 1 ]',
        '[ -f a -a "$X" ]',
        "wait -p x",
        "X=a; wait -p X; cat $X",
        # grammar that stays out
        "f() { ls; }; f",
        "function f { ls; }",
        "case a in a) ls;; esac",
        "select f in a; do ls; done",
        "coproc ls",
        "[[ -v a ]]",
        "[[ a -eq b ]]",
        "[[ $X -eq 1 ]]",
        "[[ a[$(id)] -eq 1 ]]",
        "[[ -f $(touch a) ]]",
        "[[ $X =~ a ]]",
        "[[ -f a && -f b ]]",
        "[[ -f a",
        "[[ -f a ]",
        "[[ -f {a,b} ]]",
        "cat <<EOF\n$x[1]\nEOF",
        "cat <<EOF\n${x:=a}\nEOF",
        "cat <<EOF\n$GITHUB_TOKEN\nEOF",
        "cat <<EOF\n$((1))\nEOF",
        'rg "$(cat <<EOF\n$x\nEOF\n)" y',
        "((1))",
        "for ((;;)); do ls; done",
        "for f; do ls; done",
        "eval ls",
        "trap ls EXIT",
        "exec ls",
        "alias ls=rm; ls",
        "command ls",
        "source x/activate",
        "source /tmp/.venv/bin/activate",
        "source ../.venv/bin/activate",
        ". ./x",
        "set -- a",
        "set -k",
        "ls {fd}>x",
        "{ ls; } {fd}>x",
        "ls )",
        "(ls",
        "{ ls; ",
        "if ls; then ls",
        "for f in a; do ls",
        "ls; done",
        "ls ;; ls",
        "ls & & ls",
        "& ls",
        "! ! ls",
        "(cd ..; ls)",
        "for d in a b; do cd ..; done",
        "while ls; do cd sub/..; cd ..; done",
        "cd $X && ls",
        "for d in *; do cd $d; ls; done",
        "for d in ../*; do (cd $d && ls); done",
        "echo {1..100}",
        "ls {a,{b,c}}",
        "ls {a,$x}",
        "{rm,x}",
        "ls ~root/x",
        "X=~/a; ls $X",
        "ls $X~",
        # here-documents
        "cat <<EOF\n$(rm a)\nEOF",
        "cat <<EOF\n`rm a`\nEOF",
        "cat <<EOF\na\\\nEOF\nrm b\nEOF",
        "cat <<'E F'\nx\nE F",
        "cat <<$X\nx\n$X",
        "cat <<'EOF'\nx",
        "cat <<'EOF'",
        "cat <<'EOF'\nx\n EOF\nls\nEOF",
        "cat <<'EOF'\nx\nEOF \nls\nEOF",
        "cat <<-'EOF'\nx\n \tEOF\nls\nEOF",
        "echo \"$(cat <<'EOF'\nx\nEOF)\"; rm a; echo \"$(cat <<'EOF'\nEOF\n)\"",
        'echo "$(cat <<\'EOF\'\nx)"; rm a; echo "(\nEOF\n)"',
        "echo \"$(cat <<'EOF')\"\nx\nEOF",
        "cat <<'EOF' \"\nx\nEOF\n\"",
        "cat <<'EOF' $(ls\n)\nEOF",
        "cat <<'EOF'\nx\r\nEOF\r\n",
        "bash <<'EOF'\nls\nEOF",
        "cat <<< $X",
        "ls $\\\n(rm a)",
        'ls "$\\\n(rm a)"',
        "ls $x\\\ny",
    ],
)
def test_no_construct_smuggles_anything(line: str) -> None:
    assert verdict(line, ALLOW, ["prefix rm -r"]) is not Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "X=-rf; rm $X /",
        "for f in a; do (if ls; then rm -rf $f; fi) & done",
        "ls $(rm -rf a)",
        "X=$(rm -rf a); ls",
        "for f in $(rm -rf a); do ls; done",
        "[ -f a ] && { rm -rf a; }",
        "while rm -rf a; do ls; done",
        "cat <<'EOF'\nx\nEOF\nrm -rf a",
        "echo $(echo $(echo $(rm -rf a)))",
        "[[ -f $(rm -rf a) ]]",
        "ls | xargs rm -rf",
        "find . -exec rm -rf {} \\;",
        "A=-r; B=f; rm ${A}$B a",
    ],
)
def test_a_denied_command_is_denied_wherever_the_line_holds_it(line: str) -> None:
    assert verdict(line, [*ALLOW, "prefix xargs"], ["prefix rm -rf"]) is Verdict.DENY


@pytest.mark.parametrize(
    ("line", "deny", "judged"),
    [
        ("echo $X", "echo secret", Verdict.ASK),
        ("echo $X", "git push", Verdict.ALLOW),
        ("for f in src/*; do cat $f; done", "cat src/key", Verdict.ASK),
        ("git diff $(git merge-base main HEAD)", "git push", Verdict.ALLOW),
        ("git diff $(git merge-base main HEAD)", "git diff secret", Verdict.ASK),
    ],
)
def test_what_a_deny_may_mean_and_nobody_knows_is_asked(line: str, deny: str, judged: Verdict) -> None:
    assert verdict(line, ALLOW, [f"prefix {deny}"]) is judged


def test_the_same_text_is_judged_by_what_holds_wherever_it_stands() -> None:
    known, unknown = "for f in src/*; do cat $f; done", "f=$(ls); cat $f"
    assert verdict(known, ALLOW) is Verdict.ALLOW
    assert verdict(f"{known}; {unknown}", ALLOW) is Verdict.ASK
    assert verdict(f"{unknown}; {known}", ALLOW) is Verdict.ASK
    assert verdict("rg {} x; ls | xargs -I{} rg {} x", ALLOW) is Verdict.ASK


def test_a_redirection_of_a_compound_is_judged_where_the_compound_begins() -> None:
    assert verdict("while read f; do cd sub; echo; done < .env", ALLOW, paths=["/repo/.env"]) is Verdict.DENY
    assert verdict("cd sub && { cd x; ls; } < .env", ALLOW, paths=["/repo/sub/.env"]) is Verdict.DENY
    assert not analyse("{ ls; } > out").plain
    assert analyse("{ ls; } > out").redirects_only
    assert analyse("{ ls; } > /dev/null 2>&1").plain


def test_a_line_is_unrolled_to_a_bounded_number_of_commands() -> None:
    lists = " ".join("abcdefghij")
    line = f"for a in {lists}; do for b in {lists}; do for c in {lists}; do for d in {lists}; do ls; done; done; done; done"
    assert not analyse(line).plain
    assert analyse(f"for a in {' '.join(map(str, range(STEPS_MAX)))}; do echo $a; done").plain
    assert not analyse("echo $a" + " x" * WORDS_MAX).plain


def test_a_line_that_nests_too_deep_is_not_plain() -> None:
    assert not analyse("(" * 30 + "ls" + ")" * 30).plain
    assert not analyse("echo " + "$(echo " * 30 + ")" * 30).plain
