"""What the command line says when the machine refuses."""

import errno
import json
import re
import shlex

import pytest

from napari_ctvqa import cli
from napari_ctvqa.cli import build_parser
from napari_ctvqa.extensions import commands


@pytest.fixture
def failing(monkeypatch):
    """Let ``questions`` raise."""

    def make(error):
        def run(self, args):
            raise error

        monkeypatch.setattr(type(commands()["questions"]), "run", run)

    return make


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device", "/out/r.json"), MemoryError(), OSError("?")],
)
def test_a_refusing_machine_is_one_line_and_exit_1(failing, capsys, error):
    failing(error)
    assert cli.main(["questions", "x"]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_a_refusing_machine_is_json_too(failing, capsys):
    failing(OSError(errno.ENOSPC, "No space left on device", "/out/r.json"))
    assert cli.main(["questions", "x", "--json"]) == 1
    assert "/out/r.json" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_an_empty_file_name_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "x", "--model", "rules", "--format", "mc", "--out", ""])
    assert caught.value.code == 2


def test_stopped_while_commands_are_still_being_loaded_is_one_line(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_parser", stopped)
    assert cli.main(["run"]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("name", sorted(commands()))
def test_help_explains_every_option_and_its_examples_can_be_typed(name, capsys):
    parser = build_parser()._subparsers._group_actions[0].choices[name]
    unexplained = [action.option_strings or action.dest for action in parser._actions
                   if not action.help]  # fmt: skip
    assert not unexplained
    assert parser.description[0].isupper() and parser.description.rstrip().endswith(".")
    assert all(len(line) <= 100 for line in f"{parser.description}\n{parser.epilog}".split("\n"))
    for line in re.findall(r"^  napari-ctvqa (.*)$", parser.epilog or "", re.MULTILINE):
        words = shlex.split(line, comments=True)
        try:
            assert build_parser().parse_args(words).command == name
        except SystemExit as ended:
            assert ended.code == 0 and "--list" in words
    capsys.readouterr()
