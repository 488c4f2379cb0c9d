"""`sql`, as typed in a shell: each event once, wherever it is, and streams that cannot be read are named."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import CommandLine


def fill(ledger: CommandLine, *names: str) -> None:
    for name in names:
        ledger("ask", name, "bash", f"git push '{name}'", "--project", "shop", "--id", f"{name}_r", "--no-wait", code=7)
        ledger("reply", f"{name}_r", "always", "--as", "ann", code=0)
        ledger("close", name, code=0)


BY_STREAM = "SELECT stream, count(*) AS events FROM events GROUP BY ALL ORDER BY ALL"


def test_a_query_counts_each_event_once_on_the_server_and_in_the_archive(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2", "ses_3")
    before = ledger("sql", BY_STREAM, "--json", code=0).rows
    assert [row["stream"] for row in before] == ["session:ses_1", "session:ses_2", "session:ses_3"]
    ledger("archive", "ses_1", "ses_2", "--to", str(tmp_path / "archive"), code=0)
    ledger("restore", "ses_2", code=0)
    assert ledger("sql", BY_STREAM, "--json", code=0).rows == before
    words = "SELECT person, permission, outcome, x->>'$.patterns' AS p FROM events WHERE type = 'replied' ORDER BY ms"
    table = ledger("sql", words, code=0).out
    assert table.count("ann") == table.count("allowed") == 3
    file = next((tmp_path / "archive").rglob("*.parquet"))
    file.unlink()
    told = ledger("sql", BY_STREAM, "--json", code=11)
    assert told.rows == [row for row in before if row["stream"] != "session:ses_1"]
    assert file.name in told.err


def test_rows_are_bounded_with_a_hint_and_errors_have_the_words_of_the_query(ledger: CommandLine) -> None:
    fill(ledger, "ses_1")
    told = ledger("sql", "FROM range(1500)", "--json", code=0)
    assert (len(told.rows), "--limit 0 all" in told.err) == (1000, True)
    assert len(ledger("sql", "FROM range(1500)", "--limit", "0", "--json", code=0).rows) == 1500
    assert "LINE 1: SELECT persn" in ledger("sql", "SELECT persn FROM events", code=12).err
    assert "COPY" in ledger("sql", "COPY events TO '/tmp/x'", code=12).err
    assert ledger("sql", "SELECT 'a' || chr(27) || 'b' AS escaped", code=0).out.count("\x1b") == 0
    assert "no rows" in ledger("sql", "FROM events WHERE version < 0", code=0).err


def test_stored_rules_are_a_table_which_sessions_name_by_digest(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"permission": {"bash": {"*": "ask", "ls *": "allow"}}}')
    ledger("ask", "ses_1", "bash", "git push", "--rules", str(rules), "--no-wait", code=7)
    fill(ledger, "ses_2")
    columns = "number, action, rules.permission, pattern, layer, ends_with(place, 'rules.json:1') AS is_placed"
    query = f"SELECT DISTINCT {columns} FROM rules JOIN events ON d->>'$.event.policy_digest' = digest WHERE stream = {{}} ORDER BY 1"
    assert ledger("sql", query.format("'session:ses_1'"), "--json", code=0).rows == [
        {"number": 1, "action": "ask", "permission": "bash", "pattern": "*", "layer": "project", "is_placed": True},
        {
            "number": 2,
            "action": "allow",
            "permission": "bash",
            "pattern": "ls *",
            "layer": "project",
            "is_placed": True,
        },
    ]
    digests = {row["digest"] for row in ledger("policy", "stored", "--json", code=0).rows}
    assert {
        row["digest"] for row in ledger("sql", "SELECT DISTINCT digest FROM rules", "--json", code=0).rows
    } <= digests
