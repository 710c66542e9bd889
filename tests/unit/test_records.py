"""Runs of one model from two files stay two."""

from napari_ctvqa.core.records import Run, named_apart


def test_two_files_of_one_model_are_two_runs():
    first = Run("m", {}, path="/x/a.json")
    shown = {"m": first}
    second = named_apart(Run("m", {}, path="/x/b.json"), shown)
    assert second.model == "m [b]"
    third = named_apart(Run("m", {}, path="/y/b.json"), {**shown, second.model: second})
    assert third.model not in ("m", "m [b]")


def test_the_same_file_again_takes_its_own_place():
    first = Run("m", {}, path="/x/a.json")
    assert named_apart(Run("m", {}, path="/x/a.json"), {"m": first}).model == "m"
