import json
import multiprocessing
import os

import pytest

from napari_ctvqa.core.errors import InputFileError
from napari_ctvqa.io.append_log import BusyError
from napari_ctvqa.io.result_journal import NotWrittenError, ResultJournal

RUN = {"model": "rules", "answer_format": "mc", "kit": "live", "benchmark": "deeptumorvqa"}


def row(number, text="A"):
    return {"qid": f"q{number}", "raw_output": text}


def results(path):
    return {r["qid"]: r["raw_output"] for r in json.loads(path.read_text())["results"]}


def test_an_answer_is_on_disk_before_it_counts(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        lines = journal.partial.read_text().splitlines()
        assert json.loads(lines[-1]) == row(1)
        assert not out.exists()


def test_the_answers_of_a_killed_run_are_there_again(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        journal.write()
        journal.add(row(2))
    with ResultJournal(out, RUN) as again:
        assert len(again) == 2 and "q1" in again and "q2" in again
        again.add(row(3))
        again.finish({"overall": 1}, ["q3", "q2", "q1"])
    assert list(results(out)) == ["q3", "q2", "q1"]
    assert json.loads(out.read_text())["metrics"] == {"overall": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_a_torn_last_line_is_asked_again_and_never_glued_to_the_next(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        journal.add(row(2))
    partial = tmp_path / "r.json.partial.jsonl"
    whole = partial.read_bytes()
    for cut in range(whole.index(b'{"qid": "q2"') + 1, len(whole)):
        partial.write_bytes(whole[:cut])
        with ResultJournal(out, RUN) as again:
            assert "q1" in again and "q2" not in again
            assert any("asked again" in note for note in again.notes)
            again.add(row(2, "B"))
        with ResultJournal(out, RUN) as third:
            assert third.raw_texts == {"q1": "A", "q2": "B"}
            assert third.notes == []


def test_a_journal_torn_in_its_first_line_starts_anew(tmp_path):
    (tmp_path / "r.json.partial.jsonl").write_bytes(b'{"run": {"mod')
    with ResultJournal(tmp_path / "r.json", RUN) as journal:
        journal.add(row(1))
    with ResultJournal(tmp_path / "r.json", RUN) as again:
        assert "q1" in again


def test_a_line_damaged_in_the_middle_loses_only_itself(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        for number in (1, 2, 3):
            journal.add(row(number))
    partial = tmp_path / "r.json.partial.jsonl"
    partial.write_bytes(partial.read_bytes().replace(b'{"qid": "q2"', b"\0\0\0\0\0\0\0\0\0\0\0\0"))
    with ResultJournal(out, RUN) as again:
        assert "q1" in again and "q2" not in again and "q3" in again
        assert any("could not be read" in note for note in again.notes)


def test_a_finished_answer_is_never_replaced_an_error_is(tmp_path):
    with ResultJournal(tmp_path / "r.json", RUN) as journal:
        journal.add(row(1))
        journal.add(row(2, "[ERROR] no mask for liver"))
        with pytest.raises(ValueError, match="already"):
            journal.add(row(1, "B"))
        assert journal.failed == {"q2"}
        journal.add(row(2, "C"))
        assert not journal.failed
        journal.finish({}, [])
    assert results(tmp_path / "r.json") == {"q1": "A", "q2": "C"}


def test_an_error_in_the_journal_does_not_replace_the_answer_in_the_file(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        journal.finish({}, [])
    with ResultJournal(out, RUN) as journal:
        partial = journal.partial
    with partial.open("a") as file:
        file.write(json.dumps(row(1, "[ERROR] later")) + "\n")
    with ResultJournal(out, RUN) as journal:
        assert journal.raw_texts == {"q1": "A"}


@pytest.mark.parametrize("key", ["model", "answer_format", "kit", "benchmark"])
@pytest.mark.parametrize("finished", [True, False])
def test_the_file_of_another_run_is_refused(tmp_path, key, finished):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        if finished:
            journal.finish({}, [])
    with pytest.raises(InputFileError, match=f"{key} .*another") as raised:
        ResultJournal(out, {**RUN, key: "another"}).__enter__()
    assert "--out" in raised.value.hint


@pytest.mark.parametrize(
    "content", ['{"results": []}', '{"questions": []}', "[1, 2]", "not JSON", "", "[" * 5000]
)
def test_a_file_that_no_run_made_is_left_as_it_is(tmp_path, content):
    out = tmp_path / "r.json"
    out.write_text(content)
    with pytest.raises(InputFileError):
        ResultJournal(out, RUN).__enter__()
    assert out.read_text() == content


def test_a_folder_as_file_is_refused(tmp_path):
    (tmp_path / "r.json").mkdir()
    with pytest.raises(InputFileError, match="not a file"):
        ResultJournal(tmp_path / "r.json", RUN).__enter__()


def _try_to_open(path, answers):
    try:
        with ResultJournal(path, RUN):
            answers.put("opened")
    except BusyError as error:
        answers.put(error.message)


def test_two_runs_on_one_file_are_refused(tmp_path):
    out = tmp_path / "r.json"
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with ResultJournal(out, RUN):
        other = context.Process(target=_try_to_open, args=(out, answers))
        other.start()
        said = answers.get(timeout=60)
        other.join()
        with pytest.raises(BusyError, match="another run") as raised:
            ResultJournal(out, RUN).__enter__()
    assert said == raised.value.message and str(out) in said
    with ResultJournal(out, RUN):
        pass


def test_a_lock_won_on_a_journal_that_was_removed_meanwhile_counts_for_nothing(
    tmp_path, monkeypatch
):
    from napari_ctvqa.io import append_log

    out = tmp_path / "r.json"
    partial = tmp_path / "r.json.partial.jsonl"
    real = append_log._lock
    removed = []

    def lock_after_removal(file):
        if not removed:
            removed.append(partial)
            partial.unlink()
        real(file)

    monkeypatch.setattr(append_log, "_lock", lock_after_removal)
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
    assert removed and partial.exists()


def test_the_file_stays_whole_when_writing_it_fails(tmp_path, monkeypatch):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(1))
        journal.write()
        before = out.read_bytes()
        journal.add(row(2))

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(NotWrittenError, match=r"r\.json: cannot be written \(No") as caught:
            journal.write()
        assert caught.value.hint
        with pytest.raises(NotWrittenError, match=r"partial\.jsonl: cannot be written"):
            journal.add(row(3))
        monkeypatch.undo()
        assert out.read_bytes() == before
        assert sorted(p.name for p in tmp_path.iterdir()) == ["r.json", "r.json.partial.jsonl"]


@pytest.mark.parametrize("answers", [500, 4000])
def test_replacing_the_file_takes_a_bounded_share_of_the_time(tmp_path, monkeypatch, answers):
    # a clock that runs 10 ms a row while FILE is written and 50 ms a question: written after
    # every answer, 4,000 answers would take 80,000 s, most of it writing
    from napari_ctvqa.io import result_journal

    now, writing = [0.0], []
    monkeypatch.setattr(result_journal.time, "monotonic", lambda: now[0])
    with ResultJournal(tmp_path / "r.json", RUN) as journal:

        def sync_folder(_):
            writing.append(0.01 * len(journal))
            now[0] += writing[-1]

        monkeypatch.setattr(result_journal, "sync_folder", sync_folder)
        for number in range(answers):
            journal.add(row(number))
            now[0] += 0.05
            journal.write_if_due()
    assert writing
    assert sum(writing) <= 0.12 * now[0]


# What was damaged or edited by hand ----------------------------------------------------------


def headless(path, damage):
    """A journal of two answers whose first line was changed."""
    with ResultJournal(path, RUN) as journal:
        journal.add(row(1))
        journal.add(row(2))
    partial = path.with_name(f"{path.name}.partial.jsonl")
    lines = partial.read_bytes().split(b"\n")
    partial.write_bytes(b"\n".join(damage(lines)))


DAMAGES = {
    "garbage": lambda lines: [b"\x00\x00 garbage", *lines[1:]],
    "blank": lambda lines: [b"", *lines[1:]],
    "gone": lambda lines: lines[1:],
    "half": lambda lines: [lines[0][: len(lines[0]) // 2], *lines[1:]],
    "other json": lambda lines: [b"[1, 2]", *lines[1:]],
    "all garbage": lambda lines: [b"garbage", b"garbage", b""],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("run", [RUN, {**RUN, "model": "other", "answer_format": "freeform"}])
def test_a_journal_that_does_not_say_whose_it_is_is_not_added_to(tmp_path, damage, run):
    out = tmp_path / "r.json"
    headless(out, damage)
    before = (tmp_path / "r.json.partial.jsonl").read_bytes()
    with pytest.raises(InputFileError, match="which run"), ResultJournal(out, run):
        pass
    assert (tmp_path / "r.json.partial.jsonl").read_bytes() == before


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_beside_a_file_of_the_run_a_headless_journal_goes_on(tmp_path, damage):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(0))
        journal.write()
    headless(out, damage)
    with ResultJournal(out, RUN) as again:
        assert "q0" in again
        again.add(row(3))
        again.finish({}, [])
    assert {"q0", "q3"} <= set(results(out))


def test_a_file_of_another_run_is_refused_whatever_its_journal_says(tmp_path):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add(row(0))
        journal.write()
    headless(out, DAMAGES["garbage"])
    other = {**RUN, "answer_format": "freeform"}
    with pytest.raises(InputFileError, match="freeform"), ResultJournal(out, other):
        pass


def edited(path, *rows):
    path.write_text(json.dumps({**RUN, "results": list(rows)}))


def test_a_number_for_an_id_is_that_id(tmp_path):
    out = tmp_path / "r.json"
    edited(out, {"qid": 7, "raw_output": "A"})
    with ResultJournal(out, RUN) as journal:
        assert "7" in journal and journal.raw_texts == {"7": "A"}
        with pytest.raises(ValueError, match="already"):
            journal.add({"qid": "7", "raw_output": "B"})


FOREIGN = ({"raw_output": "A"}, {"qid": None}, {"qid": True}, {"qid": 1.5}, "text", 3, None)


def test_rows_that_answer_nothing_are_told_and_not_lost(tmp_path):
    out = tmp_path / "r.json"
    edited(out, row(1), *FOREIGN)
    with ResultJournal(out, RUN) as journal:
        assert any(f"{len(FOREIGN)} rows" in note for note in journal.notes)
        assert len(journal) == 1
        journal.add(row(2))
        journal.finish({}, [])
    assert json.loads(out.read_text())["results"] == [row(1), row(2), *FOREIGN]


def test_a_second_answer_to_a_question_is_told(tmp_path):
    out = tmp_path / "r.json"
    edited(out, row(1, "A"), row(1, "B"))
    with ResultJournal(out, RUN) as journal:
        assert journal.raw_texts == {"q1": "A"}
        assert any("earlier" in note for note in journal.notes)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_has_not_are_null(tmp_path, number):
    out = tmp_path / "r.json"
    with ResultJournal(out, RUN) as journal:
        journal.add({**row(1), "trajectory": [{"result": {"value": number, "list": [number, 1]}}]})
        journal.finish({"overall": {"accuracy": number}}, [])

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(out.read_text(), parse_constant=refuse)
    assert data["metrics"] == {"overall": {"accuracy": None}}
    assert data["results"][0]["trajectory"] == [{"result": {"value": None, "list": [None, 1]}}]
