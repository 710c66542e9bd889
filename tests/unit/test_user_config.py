"""What is remembered in the user's config folder."""

import json

import pytest

from napari_ctvqa.io import user_config


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    folder = tmp_path / "config"
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(folder))
    return folder


def test_roots_are_remembered_by_benchmark_newest_first(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    user_config.remember_roots("a", [one])
    user_config.remember_roots("a", [two])
    user_config.remember_roots("a", [one])
    assert user_config.remembered_roots("a") == (one, two)
    assert user_config.remembered_roots("b") == ()


def test_roots_that_are_gone_are_left_out(tmp_path):
    one = tmp_path / "one"
    one.mkdir()
    user_config.remember_roots("a", [one])
    one.rmdir()
    assert user_config.remembered_roots("a") == ()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 3}', '{"a": [1, null]}', "\x00"])
def test_a_broken_file_counts_as_empty_and_is_replaced(config, tmp_path, content):
    config.mkdir()
    (config / "case_roots.json").write_text(content)
    assert user_config.remembered_roots("a") == ()
    user_config.remember_roots("a", [tmp_path])
    assert user_config.remembered_roots("a") == (tmp_path,)


def test_a_folder_that_cannot_be_written_loses_the_memory_only(config, tmp_path, caplog):
    config.write_text("a file where the folder should be")
    user_config.remember_roots("a", [tmp_path])
    assert "cannot be remembered" in caplog.text
    assert user_config.remembered_roots("a") == ()


def test_nothing_is_left_beside_the_file(config, tmp_path):
    user_config.remember_roots("a", [tmp_path])
    assert [f.name for f in config.iterdir()] == ["case_roots.json"]
    assert json.loads((config / "case_roots.json").read_text()) == {"a": [str(tmp_path)]}


def test_nothing_given_writes_nothing(config):
    user_config.remember_roots("a", [])
    assert not config.exists()
