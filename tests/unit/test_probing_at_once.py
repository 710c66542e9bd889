"""Probes asked several at once: the same file in the end, whoever answers first, kills included."""

import json
import random
import shutil
import threading
import time
import weakref

import pytest
import small_benchmark
from scripted_models import PRESET, ScriptedFamily

from napari_ctvqa.core.events import Done, Failed, FailureKind, Tokens
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.io.result_journal import partial_of
from napari_ctvqa.models.chat_image import ChatImage
from napari_ctvqa.runners import probe_changes
from napari_ctvqa.runners.answering import ModelAnswerer
from napari_ctvqa.runners.batch import GaveUpError
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.probing import MOST_COPIES, run_probes
from napari_ctvqa.runners.server_pool import ServerPool

PROBES = ("mirrored", "lesion_removed", "blank", "coarser", "finer", "shuffled", "reworded")
ROWS = range(18)
TOO_LONG = Failed(FailureKind.CONTEXT_TOO_LONG, "The request is too long.", "Send less.")
PARTS = 18 * (1 + len(PROBES))


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return open_path(small_benchmark.write(tmp_path_factory.mktemp("at_once") / "bench"))


class Server:
    """Answers from what it is shown, after a time of its own; counts who is at it."""

    model, host, title, url = "m", "", "server", "server"

    def __init__(self, seconds=0.0, end=None):
        self.seconds, self.end = seconds, end
        self.asked = self.at_work = self.most = 0
        self._lock = threading.Lock()
        self._rng = random.Random(3)

    def ask(self, ask, cancelled):
        with self._lock:
            self.asked += 1
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            seconds = self._rng.uniform(0, self.seconds)
        try:
            yield Tokens("…")
            if self.end is not None:
                yield self.end
            elif cancelled.wait(seconds):
                yield Done("", reason="cancelled")
            else:
                light = sum(int(picture.pixels.sum()) for picture in ask.pictures)
                yield Done("AB"[(light + len(ask.messages[-1].text)) % 2])
        finally:
            with self._lock:
                self.at_work -= 1

    def close(self):
        pass


def model(*servers, at_once=1, family=None):
    way = ServerPool(servers, at_once=at_once)
    return ModelAnswerer("m", "M", family or ScriptedFamily(), PRESET, way)


def asked(opened, answerer, out, probes=PROBES, **options):
    return run_probes(opened, answerer, AnswerFormat.MC, out, rows=ROWS, probes=probes, **options)


def content(path):
    """Return a result file without what is a matter of time."""
    data = json.loads(path.read_text())
    for row in data["results"]:
        for key in ("seconds", "server", "usage"):
            row.pop(key, None)
    data.get("config", {}).pop("host", None)
    return data


@pytest.fixture(scope="module")
def one_by_one(opened, tmp_path_factory):
    out = tmp_path_factory.mktemp("serial") / "p.json"
    server = Server()
    last = list(asked(opened, model(server), out))[-1]
    assert last.done == last.total == PARTS and server.most == 1
    return content(out)


def test_the_file_is_the_same_whoever_answers_first(opened, tmp_path, one_by_one):
    servers = Server(0.02), Server(0.001)
    out = tmp_path / "p.json"
    last = list(asked(opened, model(*servers, at_once=3), out))[-1]
    assert (last.done, last.total, last.failed) == (PARTS, PARTS, 0)
    assert all(server.most > 1 for server in servers)
    assert content(out) == one_by_one
    assert not partial_of(out).exists()


@pytest.mark.parametrize("after", [1, 40])
def test_killed_at_any_moment_nothing_that_counted_is_lost(opened, tmp_path, one_by_one, after):
    """What lies on the disk in the middle of it is enough to go on from."""
    out, later = tmp_path / "p.json", tmp_path / "later.json"
    steps = asked(opened, model(Server(0.004), Server(0.001), at_once=3), out)
    told = 0
    for step in steps:
        told += step.answer is not None
        if told == after:
            break
    shutil.copy(partial_of(out), partial_of(later))
    if out.exists():
        shutil.copy(out, later)
    steps.close()
    lines = [json.loads(line) for line in partial_of(later).read_bytes().splitlines()[1:]]
    found = {(row["question_id"], row["probe"]) for row in lines}
    assert len([probe for _, probe in found if probe != "original"]) >= after
    assert all((question, "original") in found for question, _ in found)
    server = Server()
    last = list(asked(opened, model(server, at_once=4), later))[-1]
    assert last.done == PARTS and content(later) == one_by_one
    # What was asked again is what was not there, but for probes that cannot be made.
    assert server.asked <= PARTS - len(found)


def test_closing_it_ends_all_threads_and_keeps_what_came(opened, tmp_path, one_by_one):
    out = tmp_path / "p.json"
    before = set(threading.enumerate())
    answerer = model(Server(0.01), at_once=4)
    steps = asked(opened, answerer, out)
    while next(steps).done < 25:
        pass
    steps.close()
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("ctvqa")]
    assert not answerer.cancelled.is_set(), "it can be asked again"
    assert len(json.loads(out.read_text())["results"]) >= 25
    list(asked(opened, answerer, out))
    assert content(out) == one_by_one


def test_an_answerer_that_is_cancelled_leaves_no_half_answer(opened, tmp_path):
    out = tmp_path / "p.json"
    answerer = model(Server(5.0), at_once=4)
    steps = asked(opened, answerer, out)
    began = time.monotonic()
    threading.Timer(0.3, answerer.cancel).start()
    done = list(steps)[-1].done
    rows = json.loads(out.read_text())["results"]
    assert time.monotonic() - began < 60 and len(rows) == done < PARTS
    assert all(row["raw_output"] in ("A", "B", "") for row in rows)


def test_it_gives_up_where_nothing_answers(opened, tmp_path):
    answerer = model(Server(end=TOO_LONG), at_once=4)
    with pytest.raises(GaveUpError, match="3 questions in a row"):
        list(asked(opened, answerer, tmp_path / "p.json"))


def test_few_changed_copies_of_a_ct_are_held(opened, tmp_path, monkeypatch):
    """Also where all that could be asked waits for a slow server."""
    held, most = weakref.WeakSet(), []

    def holding(make):
        def made(*arguments):
            changed = make(*arguments)
            held.add(changed.case.volume)
            return changed

        return made

    for name in ("regridded", "without_lesions"):
        monkeypatch.setattr(probe_changes, name, holding(getattr(probe_changes, name)))
    body = dict(probe_changes._BODY, lesion_removed=lambda case, organs, _: (
        probe_changes.without_lesions(case, organs)))  # fmt: skip
    monkeypatch.setattr(probe_changes, "_BODY", body)

    class Slow(Server):
        def ask(self, ask, cancelled):
            most.append(len(held))
            yield from super().ask(ask, cancelled)

    answerer = model(Slow(0.02), at_once=16)
    heavy = ("lesion_removed", "coarser", "finer")
    last = list(asked(opened, answerer, tmp_path / "p.json", heavy))[-1]
    assert last.done == 18 * 4
    assert 1 <= max(most) <= MOST_COPIES + 1, "one may be let go of a moment after the next"


def test_a_chat_model_s_pictures_are_those_of_one_by_one(opened, tmp_path):
    """Each question has its own change of what is sent: none meets another's."""
    probes = ("mirrored", "window", "slices", "overlay", "box")
    family = ChatImage()
    found = []
    for at_once in (1, 6):
        answerer = ModelAnswerer(
            "m", "M", family, family.presets["qwen3-vl"],
            ServerPool([Server(0.002)], at_once=at_once), settings={"max_slices": 3},
        )  # fmt: skip
        out = tmp_path / f"{at_once}.json"
        list(asked(opened, answerer, out, probes))
        found.append(content(out))
    assert found[0] == found[1]
