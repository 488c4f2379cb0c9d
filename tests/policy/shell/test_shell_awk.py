"""Programs of awk: sums and prints are harmless, whatever runs, writes or is read differently by awks is not."""

from __future__ import annotations

import subprocess

import pytest

from ledger.policy.shell.forms.reduction import is_harmless_awk
from tests.support.rows import every


@pytest.mark.parametrize(
    "program",
    [
        "{sum+=$2} END {print sum}",
        "{print $1}",
        "NR==1 || /a b/ {print $1, $NF}",
        '/^#/ {next} {n++; a[$1] += $2} END {for (k in a) printf "%s %d\\n", k, a[k]}',
        'BEGIN {FS=","} $3 > 10 && $1 ~ /x/ {print $2 / 2}',
        "{if ($1 > max) max = $1; else n += length($0)} END {print max}",
        "!seen[$0]++",
        "NF",
        '{gsub(/a/, "b"); print toupper(substr($0, 1, 3))}  # done',
        "END {print NR}",
        '{ print ($1 > 2 ? "x" : "y") }',
        "length > 80",
    ],
)
def test_a_program_that_only_calculates_and_prints_is_harmless(program: str) -> None:
    assert is_harmless_awk(program)


@every(
    "program",
    [
        '{system("id")}',
        'BEGIN{system ("id")}',
        '{print > "x"}',
        '{print >> "x"}',
        '{print ($1) > "x"}',
        '{if (1) print $1 > "x"}',
        '{printf("a") > "x"}',
        '{print | "sh"}',
        '{print |& "sh"}',
        '"id" | getline',
        '{getline < "x"}',
        "BEGIN {while ((getline line) > 0) print line}",
        '{print ENVIRON["X"]}',
        'BEGIN{ARGV[1]="x"}',
        "function f() {}",
        '@load "filefuncs"; BEGIN {}',
        'BEGIN{f="system"; @f("id")}',
        'BEGIN {if (1) /" /; system("id") #"/\n}',
        'BEGIN {x = 1; x++ /" /; system("id") #"/\n}',
        '/[/"]/ {system("id")} #"',
        '{print "a\\\nb"}',
        "{print $1",
        "print}",
        "{foo($1)}",
        '{close("x")}',
    ],
)
def test_what_may_run_write_or_be_read_differently_is_refused(program: str) -> None:
    assert not is_harmless_awk(program)


def test_a_long_program_is_read_in_one_pass() -> None:
    assert is_harmless_awk("{s+=$1};" * 8_000)
    assert not is_harmless_awk("{" * 60_000)


def test_awk_itself_takes_the_programs_that_are_called_harmless() -> None:
    ran = subprocess.run(
        ["awk", "-F,", "{sum+=$2} END {print sum}"], input="a,1\nb,2\n", capture_output=True, text=True, check=True
    )
    assert ran.stdout == "3\n"
