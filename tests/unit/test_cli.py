"""What the command line says when the machine refuses."""

import errno
import json

import pytest

from napari_ctvqa import cli
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
