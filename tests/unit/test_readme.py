"""What the README tells people to type works."""

import re
import shlex

import pytest

from napari_ctvqa import benchmarks, extensions, models, tools
from napari_ctvqa.cli import build_parser
from tests.project_file import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = sorted(set(re.findall(r"^napari-ctvqa .*$", TEXT, re.MULTILINE)))
RECIPES = re.findall(r"`napari_ctvqa/(\w+)/(\w+)\.py`:\n\n```python\n(.*?)```", TEXT, re.DOTALL)
KINDS = {"tools": tools, "models": models, "benchmarks": benchmarks}


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
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known | {"--help"}


@pytest.mark.parametrize(("kind", "name", "code"), RECIPES, ids=[r[1] for r in RECIPES])
def test_a_recipe_is_found_by_its_folder_alone(kind, name, code, tmp_path, monkeypatch):
    (tmp_path / f"{name}_recipe.py").write_text(code, encoding="utf-8")
    package = KINDS[kind]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    extensions.discover.cache_clear()
    try:
        found = getattr(extensions, kind)()
        expected = re.search(r'name = "(\w+)"', code)[1]
        assert expected in found
    finally:
        extensions.discover.cache_clear()


def test_there_are_recipes():
    assert {kind for kind, _, _ in RECIPES} >= {"tools", "models"}


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
