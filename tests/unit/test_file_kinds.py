"""A file of another kind than was meant: every command says what it is, and leaves it as it is."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import small_benchmark

from napari_ctvqa.cli import main
from napari_ctvqa.io.file_kinds import FileKind, kind_of
from napari_ctvqa.io.measure_store import COLUMNS

MADE = {
    "run.json": FileKind.RESULTS,
    "probe.json": FileKind.PROBES,
    "checks.csv": FileKind.CHECKS,
    "checks.json": FileKind.CHECKS,
    "audit.json": FileKind.AUDIT,
    "audit.csv": FileKind.AUDIT,
    "score.json": FileKind.METRICS,
    "evidence.json": FileKind.EVIDENCE,
    "board.json": FileKind.LEADERBOARD,
    "board.csv": FileKind.LEADERBOARD,
    "questions.json": FileKind.QUESTION_LIST,
    "questions.csv": FileKind.QUESTION_LIST,
    "summary.json": FileKind.SUMMARY,
}


def said(*words):
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every file that a command writes, and the benchmark they are about."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(folder / "config"))
        root = small_benchmark.write(folder / "bench", cases=1)
        run = folder / "run.json"
        limit = ("--limit", "2")
        said("probe", root, "--probe", "mirrored", *limit, "--out", folder / "probe.json")
        printed = {
            "summary.json": ("run", root, *limit, "--out", run, "--json"),
            "checks.json": ("validate", root, "--out", folder / "checks.csv", "--json"),
            "audit.json": ("audit", root, run, "--json"),
            "audit.csv": ("audit", root, run, "--csv"),
            "score.json": ("score", root, run, "--json"),
            "evidence.json": ("evidence", root, "q000000", "--json"),
            "board.json": ("leaderboard", "--json"),
            "board.csv": ("leaderboard", "--csv"),
            "questions.json": ("questions", root, "--json"),
            "questions.csv": ("questions", root, "--csv"),
        }
        for name, words in printed.items():
            _, out, err = said(*words)
            assert out, err
            (folder / name).write_text(out)
        yield folder


@pytest.mark.parametrize("name", MADE)
def test_each_file_is_known_by_its_content(made, tmp_path, name):
    other = tmp_path / "named otherwise.txt"
    shutil.copy(made / name, other)
    assert kind_of(other) is MADE[name]


def test_what_is_none_of_ours_is_nothing(made, tmp_path):
    texts = ("", "a,b\n1,2\n", "{", "[]", '[{"qid": "q1"}]', "[" * 5000, '{"run": 5}\n{"qid": 1}\n')
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.json").write_text(text)
        assert kind_of(tmp_path / f"{number}.json") is None
    (tmp_path / "m.csv").write_text(",".join(COLUMNS))
    assert kind_of(tmp_path / "m.csv") is FileKind.MEASUREMENTS
    assert kind_of(tmp_path) is kind_of(tmp_path / "not there") is None
    theirs = json.loads((made / "run.json").read_text())
    (tmp_path / "theirs.json").write_text(json.dumps({"results": theirs["results"]}))
    assert kind_of(tmp_path / "theirs.json") is None, "another runner's answers are read as such"


@pytest.mark.parametrize("name", [name for name in MADE if name != "run.json"])
def test_where_answers_were_meant_it_is_said_what_there_is(made, name):
    for command in ("audit", "score", "leaderboard"):
        code, out, err = said(command, made / "bench", made / name)
        assert (code, out) == (1, "")
        assert err.startswith(f"napari-ctvqa: {made / name}: {MADE[name].holds}; the answers of a")
        assert "Give a file that run wrote." in err and MADE[name].use in err


def test_questions_where_answers_were_meant(made):
    questions = made / "bench" / "benchmark" / "test_qa.json"
    code, _, err = said("audit", made / "bench", questions)
    assert code == 1 and "holds questions; the answers of a run were expected." in err


@pytest.mark.parametrize("name", [n for n in MADE if not n.startswith(("run", "questions"))])
def test_where_questions_were_meant_it_is_said_what_there_is(made, name):
    code, _, err = said("questions", made / name)
    assert code == 1 and f"{MADE[name].holds}; questions or a case were expected." in err
    assert said("evidence", made / name, "q000000")[2] == err


@pytest.mark.parametrize(
    ("command", "goes"), [("run", "run.json"), ("probe", "probe.json"), ("validate", "checks.csv")]
)
def test_a_file_of_another_kind_is_never_written_to(made, tmp_path, command, goes):
    probe = ("--probe", "mirrored") if command == "probe" else ()
    questions = made / "bench" / "benchmark" / "test_qa.json"
    for path in (*(made / name for name in MADE if name != goes), questions):
        there = tmp_path / path.name
        shutil.copy(path, there)
        code, _, err = said(command, made / "bench", *probe, "--out", there)
        assert code == 1 and there.read_bytes() == path.read_bytes()
        told = MADE.get(path.name)
        assert str(there) in err and "it is left as it is. Choose another --out." in err
        assert told is None or told.holds.removeprefix("holds ") in err
    assert not list(tmp_path.glob("*.partial.jsonl")), "nothing is left beside it"


def test_a_journal_is_known_by_what_made_it(tmp_path):
    heads = {
        FileKind.RESULTS: {"model": "m", "answer_format": "mc"},
        FileKind.PROBES: {"model": "m", "kind": "probes"},
        FileKind.CHECKS: {"path": "x", "rules": "a"},
    }
    for kind, head in heads.items():
        path = Path(tmp_path / f"{kind.name}.partial.jsonl")
        path.write_text(json.dumps({"run": head}) + "\n" + json.dumps({"qid": "q"}) + "\n")
        assert kind_of(path) is kind
