"""Model folders judged by their files alone."""

import json

import pytest

from napari_ctvqa.extensions import families
from napari_ctvqa.runners.model_folder import look_at, mismatch

QWEN = {
    "model_type": "qwen3_vl",
    "dtype": "bfloat16",
    "vision_config": {},
    "text_config": {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64},
}


def make(folder, config=QWEN, shards=1, processor="preprocessor_config.json", **files):
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    for number in range(shards):
        (folder / f"model-{number}.safetensors").write_bytes(bytes(1000))
    if processor:
        (folder / processor).write_text("{}")
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


@pytest.mark.parametrize("how", ["a dangling link", "a folder"])
def test_weights_that_cannot_be_read_are_named(tmp_path, how):
    folder = make(tmp_path / "m")
    weights = folder / "model-0.safetensors"
    weights.unlink()
    weights.mkdir() if how == "a folder" else weights.symlink_to(tmp_path / "blob")
    found = look_at(folder)
    assert "model-0.safetensors, which cannot be read" in found.problem
    assert found.hint


@pytest.mark.parametrize("processor", ["preprocessor_config.json", "processor_config.json"])
def test_a_folder_as_it_should_be(tmp_path, processor):
    found = look_at(make(tmp_path, shards=3, processor=processor))
    assert (found.problem, found.hint) == ("", "")
    assert (found.model_type, found.weight_bytes, found.dtype) == ("qwen3_vl", 3000, "bfloat16")
    cache = 2 * 2 * 4 * 16 * 8192  # keys and values, layers, heads, width, tokens
    assert found.needed_bytes("bfloat16") == 3600 + 2 * cache
    assert found.needed_bytes("float32") == 7200 + 4 * cache
    presets = {name for _, name in found.presets}
    assert "qwen3-vl" in presets
    assert "medgemma" not in presets


def test_every_preset_with_model_types_is_found_by_them(tmp_path):
    asked = 0
    for family in families().values():
        for name, preset in family.presets.items():
            for kind in preset.model_types:
                found = look_at(make(tmp_path, {**QWEN, "model_type": kind}))
                assert (family.name, name) in found.presets
                assert mismatch(found, preset) == ("", "")
                asked += 1
    assert asked > 5


def test_a_preset_that_does_not_fit_names_those_that_do(tmp_path):
    presets = {n: p for family in families().values() for n, p in family.presets.items()}
    found = look_at(make(tmp_path))
    problem, hint = mismatch(found, presets["medgemma"])
    assert "'qwen3_vl'" in problem
    assert "qwen3-vl" in hint


@pytest.mark.parametrize(
    ("changes", "problem", "hint"),
    [
        ({"config": None}, "no config.json", "save_pretrained"),
        ({"config": None, "model__gguf": b"GGUF"}, "GGUF", "--server"),
        ({"config": None, "adapter_config__json": b"{}"}, "adapter", "Merge"),
        ({"config": {}}, "names no model_type", "save_pretrained"),
        ({"config": []}, "names no model_type", "save_pretrained"),
        ({"config": {"model_type": 5}}, "names no model_type", "save_pretrained"),
        ({"config": {"model_type": "llama"}}, "takes no pictures", "vision-language"),
        ({"config__json": b"{broken"}, "no usable config.json", ""),
        ({"config__json": b"\xff\xfe\x00"}, "no usable config.json", ""),
        ({"shards": 0}, "no weights", "Download"),
        ({"shards": 0, "pytorch_model__bin": b"x"}, "pickle", "safetensors"),
        ({"model__safetensors": b"version https://git-lfs.github.com/spec/v1\n"}, "LFS", "git lfs"),
        ({"processor": ""}, "processor_config.json", "Copy"),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path, changes, problem, hint):
    found = look_at(make(tmp_path, **changes))
    assert problem in found.problem
    assert hint in found.hint


@pytest.mark.parametrize(
    ("weight_map", "missing"),
    [
        ({"a": "model-0.safetensors"}, ""),
        ({"a": "model-0.safetensors", "b": "model-7.safetensors"}, "model-7.safetensors"),
        ({"a": "../../etc/model-0.safetensors"}, ""),
        ([], "index.json"),
    ],
)
def test_shards_that_are_missing(tmp_path, weight_map, missing):
    make(tmp_path)
    index = json.dumps({"weight_map": weight_map})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert missing in look_at(tmp_path).problem
    assert bool(look_at(tmp_path).problem) == bool(missing)


def test_a_download_cache_names_the_folder_in_it(tmp_path):
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    make(snapshot)
    found = look_at(tmp_path / "models--org--name")
    assert str(snapshot) in found.hint
    assert look_at(snapshot).problem == ""


def test_no_folder(tmp_path):
    assert "no folder" in look_at(tmp_path / "nowhere").problem
    assert "no folder" in look_at(tmp_path / ("x" * 5000)).problem
