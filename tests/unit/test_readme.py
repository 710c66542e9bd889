"""What the README tells people to type works."""

import json
import re
import shlex
from types import SimpleNamespace

import pytest
from project_file import ROOT

from napari_ctvqa import benchmarks, extensions, models, tools
from napari_ctvqa.cli import build_parser
from napari_ctvqa.core.records import AnswerFormat
from napari_ctvqa.io.case_files import find_case
from napari_ctvqa.io.reader import read_case
from napari_ctvqa.runners.opening import open_path

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = sorted(set(re.findall(r"^napari-ctvqa .*$", TEXT, re.MULTILINE)))
RECIPES = re.findall(r"`napari_ctvqa/(\w+)/(\w+)\.py`:\n\n```python\n(.*?)```", TEXT, re.DOTALL)
DASKS = {"--nthreads", "--nworkers"}
"""Options of `dask worker`, a program of another project."""
PACKAGES = {"tools": tools, "models": models, "benchmarks": benchmarks}


@pytest.mark.parametrize("line", LINES)
def test_every_command_line_is_understood(line):
    words = shlex.split(line, comments=True)[1:]
    assert build_parser().parse_args(words).command == words[0]


def test_every_command_is_shown():
    assert {line.split()[1] for line in LINES} == set(extensions.commands())


def test_every_option_of_the_tables_exists():
    known = set()
    for action in build_parser()._subparsers._group_actions[0].choices.values():
        known |= set(action._option_string_actions)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known | {"--help"} | DASKS


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Put the README's recipes into the folders they name; return where to look them up."""
    for kind, name, code in RECIPES:
        folder = tmp_path / kind
        folder.mkdir()
        (folder / f"{name}_of_the_readme.py").write_text(code, encoding="utf-8")
        package = PACKAGES[kind]
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    extensions.discover.cache_clear()
    yield extensions
    extensions.discover.cache_clear()


def test_the_tool_recipe_is_found_and_works(added, phantom_case):
    case = read_case(find_case(phantom_case))
    result = added.tools()["count_slices"](case, {})
    assert result.content == {"slices": case.volume.array_zyx.shape[0]}


def test_the_benchmark_recipe_is_found_by_content(added, tmp_path):
    row = {"id": "q1", "case": "c1", "question": "Is there a cyst?", "answer": "yes"}
    (tmp_path / "example_qa.json").write_text(json.dumps([row]), encoding="utf-8")
    opened = open_path(tmp_path)
    assert opened.benchmark.name == "example"
    assert opened.questions.by_id("q1").reference.text == "yes"


def test_the_model_recipe_is_found_and_answers(added):
    question = SimpleNamespace(id="q1")
    (prediction,) = added.models()["first"].answer(question, None, AnswerFormat.MC)
    assert (prediction.question_id, prediction.raw_text) == ("q1", "A")


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
