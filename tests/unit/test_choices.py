"""Which models can be chosen and why not, an Answerer out of a choice, ``run`` and ``models``."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import small_benchmark
from fake_server import delta, error, event, finished, raw, serving, words

from napari_ctvqa.cli import main
from napari_ctvqa.commands._progress import progress_line
from napari_ctvqa.core.errors import CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.io.model_places import (
    ModelPlace,
    forget_place,
    remember_place,
    remembered_places,
)
from napari_ctvqa.io.seen_files import read_seen
from napari_ctvqa.io.user_config import store_object
from napari_ctvqa.models.rules import MODEL
from napari_ctvqa.runners import choices as choosing
from napari_ctvqa.runners import hosts
from napari_ctvqa.runners.batch import BatchProgress
from napari_ctvqa.runners.choices import (
    UnconfirmedHostError,
    Wanted,
    answerer_for,
    choices,
    interpreter_of,
    place_names,
    run_name,
)
from napari_ctvqa.runners.opening import open_path
from napari_ctvqa.runners.server import ServerWay
from napari_ctvqa.runners.server_profile import (
    Kind,
    Pictures,
    Profile,
    Tools,
    store_profile,
)
from napari_ctvqa.runners.worker_client import WorkerWay


@pytest.fixture(autouse=True)
def own_config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def bench(tmp_path):
    return small_benchmark.write(tmp_path / "bench", cases=1)


def listing(*names):
    body = json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()
    return raw(200, "application/json", body)


def chatting(*replies, models=("Qwen/Qwen3-VL-4B-Instruct",)):
    """Lists models when asked for them, else gives one reply a request, the last for ever."""
    left = list(replies)

    def reply(received, connection):
        if received.method == "GET":
            return listing(*models)(received, connection)
        return (left.pop(0) if len(left) > 1 else left[0])(received, connection)

    return reply


def chats(server):
    return [r.body for r in server.received if r.method == "POST"]


def probed(server, model="Qwen/Qwen3-VL-4B-Instruct"):
    """Let a server be known, so that only what is asked of it arrives."""
    known = {"pictures": Pictures.SEEN, "tools": Tools.PARSED, "kind": Kind.VLLM}
    store_profile(Profile(server.url, model, **known, usage=True, checked="2026-01-01T00:00:00"))


def named(name):
    return next(choice for choice in choices() if choice.name == name)


def model_folder(path: Path, kind: str = "qwen3_vl") -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": kind}))
    (path / "model.safetensors").write_bytes(bytes(8))
    (path / "processor_config.json").write_text("{}")
    return path


# ---------------------------------------------------------------------------------------- listing


def test_all_kinds_are_listed_with_what_they_need():
    kinds = {choice.name: choice.kind for choice in choices()}
    assert kinds["rules"] == "built in" and kinds["toy"] == "shipped"
    assert kinds["qwen3-vl"] == kinds["medgemma-1.5"] == "preset"
    assert "--server" in named("qwen3-vl").needs
    assert named("qwen3-vl").modes == ("direct", "agent")
    assert named("rules").kits == ("live",)


def test_the_toy_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(choosing, "missing_libraries", lambda: ["torch", "transformers"])
    monkeypatch.setattr(choosing, "shipped_folder", lambda: tmp_path)
    assert "pip install" in named("toy").unavailable
    monkeypatch.setattr(choosing, "missing_libraries", list)
    assert named("toy").unavailable == ""
    monkeypatch.setattr(choosing, "shipped_folder", lambda: None)
    assert "files are missing" in named("toy").unavailable


def test_places_are_remembered_newest_first_and_forgotten():
    gpu = ModelPlace("qwen3-vl", "http://gpu7:8000/v1", "Qwen/Qwen3-VL-4B-Instruct")
    here = ModelPlace("medgemma", folder="/models/medgemma", python="/env/bin/python")
    for place in (gpu, here, gpu):
        remember_place(place)
    assert remembered_places() == (gpu, here)
    forget_place(gpu)
    assert remembered_places() == (here,)


def test_two_places_of_one_model_are_two_choices_and_each_is_the_one_it_says(tmp_path):
    one = ModelPlace("qwen3-vl", "http://localhost:1/v1", "org/X")
    pool = ModelPlace("qwen3-vl", "http://localhost:2/v1 http://localhost:3/v1", "org/X")
    alike = ModelPlace("qwen3-vl", folder=str(tmp_path / "qwen3-vl"))
    for place in (alike, one, pool):
        remember_place(place)
    found = {choice.name: choice for choice in choices() if choice.kind == "place"}
    short, long = place_names(one)
    assert list(found) == [short, long, place_names(alike)[1]], "a preset's name is the preset's"
    assert found[short].place == pool and found[long].place == one
    assert found[short].title == "org/X on 2 servers, http://localhost:2/v1 …"
    opened = SimpleNamespace()
    for place in (one, pool):
        for _ in range(2):  # whichever came last
            answerer = answerer_for(Wanted(place_names(place)[1]), opened)
            urls = getattr(answerer.way, "urls", None) or (answerer.way.url,)
            assert " ".join(urls) == place.server
            remember_place(one)
        remember_place(pool)
    assert answerer_for(Wanted(short), opened).way.urls == tuple(pool.server.split())


def test_a_damaged_list_of_places_is_read_as_far_as_it_goes():
    good = {"preset": "qwen3-vl", "folder": "/m"}
    rows = [5, {"preset": 3, "folder": "/m"}, {"preset": "x"}, {"folder": "/m"}, good]
    store_object("models.json", {"places": rows})
    assert remembered_places() == (ModelPlace("qwen3-vl", folder="/m"),)
    store_object("models.json", {"places": "none"})
    assert remembered_places() == ()


def test_a_place_says_why_it_cannot_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "missing_libraries", lambda: ["torch"])
    folder = model_folder(tmp_path / "there")
    places = {
        "gpu": (ModelPlace("qwen3-vl", "http://gpu7:8000/v1", "org/gpu"), "gpu7 is not confirmed"),
        "near": (ModelPlace("qwen3-vl", "http://127.0.0.1:9/v1", "near"), ""),
        "gone": (ModelPlace("qwen3-vl", folder=str(tmp_path / "gone")), "is not there"),
        "there": (ModelPlace("qwen3-vl", folder=str(folder)), "torch not installed"),
        "other": (ModelPlace("qwen3-vl", folder=str(folder), python="/x"), ""),
        "old": (ModelPlace("no-more", "http://127.0.0.1:9/v1", "old"), "no preset 'no-more'"),
    }
    for place, _ in places.values():
        remember_place(place)
    reasons = {choice.place: choice.unavailable for choice in choices() if choice.place}
    for place, reason in places.values():
        assert (reason in reasons[place]) if reason else reasons[place] == ""


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL-8B-Instruct"),
        ("../../etc/passwd", "passwd"),
        ("a b/c:d?", "c-d"),
        ("///", "model"),
        ("x" * 300, "x" * 80),
    ],
)
def test_a_runs_name_can_be_a_files(model, name):
    assert run_name(model) == name


# --------------------------------------------------------------------------------------- building


def test_the_rule_agent_is_itself(bench):
    assert answerer_for(Wanted("rules"), open_path(bench)) is MODEL


def test_a_server_is_asked_which_model_fits_the_preset(bench):
    opened = open_path(bench)
    offered = ("other/thing", "lab/qwen3-vl-4b-instruct")
    with serving(chatting(words("A"), models=offered)) as server:
        made = answerer_for(Wanted("qwen3-vl", server=server.url), opened)
        assert isinstance(made.way, ServerWay) and made.way.model == offered[1]
        assert (made.name, made.config.way, made.host) == ("qwen3-vl-4b-instruct", "server", "")
        with pytest.raises(NotFoundError, match=r"other/thing, lab/qwen3.*not clear"):
            answerer_for(Wanted("medgemma", server=server.url), opened)


def test_pixels_go_to_a_confirmed_host_only(bench):
    opened = open_path(bench)
    wanted = Wanted("qwen3-vl", server="http://gpu7:8000/v1", server_model="x/y")
    with pytest.raises(UnconfirmedHostError, match="gpu7"):
        answerer_for(wanted, opened)
    with pytest.raises(UnconfirmedHostError):
        answerer_for(Wanted("qwen3-vl", server="http://gpu7:8000/v1"), opened)
    hosts.confirm("gpu7")
    assert answerer_for(wanted, opened).host == "gpu7"


def test_a_folder_runs_in_the_worker_with_what_its_preset_wants(bench, tmp_path):
    opened = open_path(bench)
    folder = model_folder(tmp_path / "medgemma-4b-it", "gemma3")
    wanted = Wanted("medgemma", folder=str(folder), python="/env/python", device="cuda:1")
    made = answerer_for(wanted, opened)
    assert isinstance(made.way, WorkerWay)
    settings = made.way.settings
    assert (settings.interpreter, settings.device) == ("/env/python", "cuda:1")
    assert settings.never_fp16 and not settings.trust_remote_code
    assert settings.idle_s is None
    assert answerer_for(replace(wanted, idle_s=900.0), opened).way.settings.idle_s == 900.0
    assert (made.name, made.config.way) == ("medgemma-4b-it", "worker")
    before = made.config.model_id
    assert before.startswith("medgemma-4b-it ")
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert answerer_for(wanted, opened).config.model_id != before, "another model of that name"


def test_a_folder_of_another_model_is_refused_with_what_would_fit(bench, tmp_path):
    opened = open_path(bench)
    folder = model_folder(tmp_path / "m", "gemma3")
    with pytest.raises(InputFileError, match=r"'gemma3'; qwen3-vl is for.*--model .*medgemma"):
        answerer_for(Wanted("qwen3-vl", folder=str(folder)), opened)
    with pytest.raises(InputFileError, match=r"no config\.json"):
        answerer_for(Wanted("qwen3-vl", folder=str(tmp_path)), opened)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Wanted("nonsense"), "no model is called 'nonsense'"),
        (Wanted("qwen3-vl"), "not where it is"),
        (Wanted("qwen3-vl", server="http://127.0.0.1:1", folder="/m"), "both a server and a"),
        (Wanted("qwen3-vl", "direct", "oracle", "http://127.0.0.1:1"), "is for agents"),
        (Wanted("qwen3-vl", "agent", "axe", "http://127.0.0.1:1"), "has no tool kit 'axe'"),
        (Wanted("qwen3-vl", "dance", "", "http://127.0.0.1:1"), "there is no mode 'dance'"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(bench, wanted, message):
    with pytest.raises(CtvqaError, match=message):
        answerer_for(wanted, open_path(bench))


def test_an_agent_is_sent_no_picture_unless_asked(bench):
    opened = open_path(bench)
    place = {"server": "http://127.0.0.1:1", "server_model": "x/y"}
    plain = answerer_for(Wanted("qwen3-vl", "agent", "live", **place), opened)
    assert plain.settings == {"max_slices": 0} and plain.name == "y-agent-live"
    some = Wanted("qwen3-vl", "agent", **place, settings={"max_slices": 4})
    assert answerer_for(some, opened).settings == {"max_slices": 4}
    assert answerer_for(Wanted("qwen3-vl", **place), opened).settings == {}


# ----------------------------------------------------------------------------------- the commands


def run(bench, out, *more):
    return main(["run", str(bench), "--out", str(out), *map(str, more)])


def rows(out):
    return json.loads(out.read_text())["results"]


def test_run_asks_a_server_and_remembers_it(bench, tmp_path, capsys):
    out = tmp_path / "r.json"
    with serving(chatting(words("A"))) as server:
        probed(server)
        options = ("--model", "qwen3-vl", "--slices", 2, "--seed", 5, "--limit", 2)
        assert run(bench, out, *options, "--server", server.url) == 0
        (first, _) = chats(server)
        shown = [p for p in first["messages"][-1]["content"] if p["type"] == "image_url"]
        assert len(shown) == 2 and first["seed"] == 5
        data = json.loads(out.read_text())
        assert data["model"] == "Qwen3-VL-4B-Instruct"
        assert data["config"]["model_id"] == "Qwen/Qwen3-VL-4B-Instruct"
        assert [row["raw_output"] for row in data["results"]] == ["A", "A"]
        assert len(read_seen(out, "q000000").requests[0].prepared.ask.pictures) == 2
        again = tmp_path / "again.json"
        assert run(bench, again, "--model", "Qwen3-VL-4B-Instruct", "--limit", 1) == 0
        capsys.readouterr()
        assert main(["models", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["Qwen3-VL-4B-Instruct"]["available"]
    assert listed["Qwen3-VL-4B-Instruct"]["where"] == server.url
    assert listed["rules"]["available"] and not listed["qwen3-vl"]["available"]


def test_models_says_why_a_server_cannot_be_used(capsys):
    with serving(listing("something/else")) as server:
        remember_place(ModelPlace("qwen3-vl", server.url, "org/mine"))
        main(["models"])
        said = capsys.readouterr().out
        assert "mine" in said and "does not offer it; it has something/else" in said
        main(["models", "--offline"])
        assert len(server.received) == 1
    main(["models"])
    assert "No server is reachable" in capsys.readouterr().out


def test_run_lets_an_agent_use_its_kit_over_a_server(bench, tmp_path):
    out = tmp_path / "r.json"
    call = {
        "index": 0, "id": "c1", "type": "function",
        "function": {"name": "segment_organ", "arguments": '{"target": "liver_lesion"}'},
    }  # fmt: skip
    calling = raw(
        200, "text/event-stream", event(delta(tool_calls=[call])), event(finished("tool_calls"))
    )
    with serving(chatting(calling, words("A"))) as server:
        probed(server)
        options = ("--mode", "agent", "--kit", "oracle", "--limit", 1, "--model", "qwen3-vl")
        assert run(bench, out, *options, "--server", server.url) == 0
        first, second = chats(server)
    assert next(t["function"]["name"] for t in first["tools"]) == "segment_organ"
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    called, tool = second["messages"][2:]
    assert called["tool_calls"][0]["id"] == tool["tool_call_id"]
    (row,) = rows(out)
    assert [list(entry)[1] for entry in row["trajectory"]] == ["tool", "final_answer"]
    assert row["trajectory"][0]["result"]["mask_found"] is True
    assert json.loads(out.read_text())["kit"] == "oracle"


def test_a_server_that_is_gone_ends_the_run_after_three_and_it_goes_on(bench, tmp_path, capsys):
    out = tmp_path / "r.json"
    server = ("--model", "qwen3-vl", "--server-model", "x/y", "--slices", 1)
    assert run(bench, out, *server, "--server", "http://127.0.0.1:9") == 1
    said = capsys.readouterr().err
    assert "3 questions in a row failed alike" in said and "--retry-errors" in said
    assert len(rows(out)) == 3 and all(r["raw_output"].startswith("[ERROR]") for r in rows(out))
    assert remembered_places() == (), "what never answered is not remembered"
    with serving(chatting(words("A"), models=("x/y",))) as there:
        probed(there, "x/y")
        assert run(bench, out, *server, "--server", there.url, "--retry-errors") == 0
    assert [row["raw_output"] for row in rows(out)] == ["A"] * 9


def test_run_confirms_a_host_once(bench, tmp_path, capsys):
    out = tmp_path / "r.json"
    options = ("--model", "qwen3-vl", "--server", "http://gpu7.invalid:8000/v1", "--limit", 1)
    assert run(bench, out, *options, "--server-model", "x/y") == 1
    assert "gpu7.invalid" in capsys.readouterr().err and not out.exists()
    run(bench, out, *options, "--server-model", "x/y", "--confirm-host")
    assert hosts.confirmed() == ("gpu7.invalid",) and len(rows(out)) == 1


def test_without_pictures_pixels_are_not_kept(bench, tmp_path):
    out = tmp_path / "r.json"
    with serving(chatting(words("A"))) as server:
        probed(server)
        options = ("--model", "qwen3-vl", "--slices", 1, "--limit", 1, "--no-pictures")
        assert run(bench, out, *options, "--server", server.url) == 0
    assert not list(tmp_path.rglob("*.png")) and list(tmp_path.rglob("ask.json"))


def test_the_line_of_a_terminal_ends_with_the_last_words():
    progress = BatchProgress(3, 9, 1, words="<b>one\x1b[31m\ntwo" + "x" * 500)
    assert progress_line(progress) == "3 of 9, 1 failed"
    line = progress_line(progress, words=True)
    assert line.startswith("3 of 9, 1 failed: ") and line.endswith("xx") and len(line) < 200
    few = progress_line(BatchProgress(3, 9, 0, words="a\x1b[31m\nb"), words=True)
    assert few == "3 of 9: a [31m b", "control characters of a model do nothing"


@pytest.mark.parametrize(
    ("given", "found"),
    [("env/bin/python", "{here}/env/bin/python"), ("~/env/bin/python", "{home}/env/bin/python"),
     ("python3.11", "python3.11"), ("/env/bin/python", "/env/bin/python"), ("", sys.executable)],
)  # fmt: skip
def test_an_interpreter_is_found_from_the_folder_of_the_models_process(
    tmp_path, monkeypatch, given, found
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert interpreter_of(given) == found.format(here=here, home=tmp_path / "home")


def test_a_server_with_many_models_is_asked_once(capsys, monkeypatch):
    listed = error(200, {"data": [{"id": "a"}, {"id": "b"}]})
    with serving(listed) as server:
        for model in ("a", "b", "gone"):
            remember_place(ModelPlace("qwen3-vl", server=server.url, model=model))
        assert main(["models", "--json"]) == 0
        assert len(server.received) == 1
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["a"]["available"] and rows["b"]["available"]
    assert "it has a, b" in rows["gone"]["why_not"]
