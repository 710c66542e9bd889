"""Code that lies with a model runs only after a person allowed exactly this code."""

import json
import os
import sys
from types import SimpleNamespace

import pytest

from napari_ctvqa.core.errors import InputFileError, NotFoundError
from napari_ctvqa.extensions import families
from napari_ctvqa.io import code_consents
from napari_ctvqa.io.code_consents import CodeConsent
from napari_ctvqa.runners import own_loaders, worker, worker_volumes
from napari_ctvqa.runners.choices import Wanted, answerer_for, choices, trust_code
from napari_ctvqa.runners.worker_process import _ENVIRONMENT

PRESETS = [
    (family, preset)
    for family in families().values()
    for preset in family.presets.values()
    if own_loaders.loader_of(preset)
]
M3D = families()["m3d"].presets["m3d-phi3"]


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPARI_CTVQA_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "m3d"
    folder.mkdir()
    for name, text in (("config.json", "{}"), ("a.safetensors", ""), ("code.py", "x = 1\n")):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def wish(folder, **more):
    return {"loader": "m3d", "folder": str(folder), "repository": "", **more}


class Talk:
    def status(self, *_):
        pass


def refusal(folder, **more):
    with pytest.raises(worker.Failure) as refused:
        worker_volumes.Engine(worker.Failure).load(wish(folder, **more), Talk())
    return refused.value.message


def test_code_needs_a_yes_for_its_exact_state(folder):
    wanted = Wanted("m3d-phi3", folder=str(folder), python="python3")
    with pytest.raises(own_loaders.UnconfirmedCodeError, match="trust-code") as refused:
        answerer_for(wanted, None)
    assert refused.value.consent.mark in str(refused.value)
    trust_code(wanted)
    answerer = answerer_for(wanted, None)
    settings = answerer.way.settings
    assert settings.trust_remote_code and settings.loader == "m3d"
    assert settings.code_mark == worker_volumes.code_mark([folder])
    (folder / "more").mkdir()
    (folder / "more" / "other.py").write_text("y = 2\n", encoding="utf-8")
    with pytest.raises(own_loaders.UnconfirmedCodeError):
        answerer_for(wanted, None)


def test_a_yes_is_for_one_model_in_one_folder(folder):
    consent = own_loaders.consent_for(M3D, folder, "")
    code_consents.allow(consent)
    assert code_consents.is_allowed(consent)
    for other in (
        CodeConsent("med3dvlm", consent.folder, consent.mark),
        CodeConsent(consent.model, "/elsewhere", consent.mark),
        CodeConsent(consent.model, consent.folder, "0" * 16),
    ):
        assert not code_consents.is_allowed(other)
    code_consents.forget(consent)
    assert not code_consents.is_allowed(consent)


def test_what_is_kept_names_model_folder_mark_and_revision(tmp_path, config):
    commit = "0123456789abcdef" * 2 + "01234567"
    folder = tmp_path / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "code.py").write_text("x = 1\n", encoding="utf-8")
    consent = own_loaders.consent_for(M3D, folder, "")
    assert consent.revision == commit
    code_consents.allow(consent)
    (row,) = json.loads((config / "model_code.json").read_text())["allowed"]
    assert row == {"model": "m3d-phi3", "folder": str(folder), "mark": consent.mark,
                   "revision": commit}  # fmt: skip


@pytest.mark.parametrize("kept", ["[]", "{", '{"allowed": [1, {"model": 2}, {"model": "a"}]}'])
def test_a_damaged_file_allows_nothing(config, kept):
    config.mkdir()
    (config / "model_code.json").write_text(kept, encoding="utf-8")
    assert code_consents.consents() == ()


def test_the_worker_looks_at_the_code_itself(folder):
    assert "not run" in refusal(folder, trust_remote_code=False)
    changed = refusal(folder, trust_remote_code=True, code_mark="0" * 16)
    assert "not what was allowed" in changed
    assert "no loader" in refusal(folder, loader="nobody's")


def test_a_name_and_its_content_make_the_mark(folder):
    before = worker_volumes.code_mark([folder])
    assert before == worker_volumes.code_mark([folder])
    (folder / "code.py").rename(folder / "other.py")
    renamed = worker_volumes.code_mark([folder])
    (folder / "other.py").write_text("x = 2\n", encoding="utf-8")
    assert len({before, renamed, worker_volumes.code_mark([folder])}) == 3
    (folder / "other.py").unlink()
    assert worker_volumes.code_mark([folder]) == ""
    assert own_loaders.consent_for(M3D, folder, "") is None


@pytest.mark.parametrize("name", ["code.so", "b/__pycache__/x.pyc", "x.PYD", "b/code.py"])
def test_whatever_python_imports_is_part_of_the_mark(folder, name):
    """Compiled code is imported instead of the source beside it."""
    before = worker_volumes.code_mark([folder])
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"\x00")
    assert worker_volumes.code_mark([folder]) != before


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own there")
def test_code_behind_links_is_part_of_the_mark_and_a_loop_ends(folder, tmp_path):
    before = worker_volumes.code_mark([folder])
    behind = tmp_path / "elsewhere"
    behind.mkdir()
    (behind / "x.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "linked").symlink_to(behind)
    (folder / "loop").symlink_to(folder)
    linked = worker_volumes.code_mark([folder])
    (behind / "x.py").write_text("x = 2\n", encoding="utf-8")
    assert len({before, linked, worker_volumes.code_mark([folder])}) == 3
    os.mkfifo(folder / "pipe.py")
    (folder / "gone.py").symlink_to(folder / "nothing")
    assert worker_volumes.code_mark([folder]), "neither can be read, neither is waited for"


def test_too_much_code_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(worker_volumes, "MAX_CODE_BYTES", 3)
    with pytest.raises(InputFileError, match="larger"):
        own_loaders.consent_for(M3D, folder, "")
    monkeypatch.setattr(worker_volumes, "MAX_CODE_FILES", 0)
    with pytest.raises(InputFileError, match="more than"):
        own_loaders.consent_for(M3D, folder, "")


def test_the_model_folder_s_code_is_asked_about_beside_the_repository_s(folder, tmp_path):
    """A repository may load a model with the code of its folder, too."""
    for loader in ("radfm", "llava-med", "ct-chat", "vila-m3"):
        assert worker_volumes.code_folders(loader, folder, str(tmp_path)) == [folder, tmp_path]
    assert worker_volumes.code_folders("merlin", folder, "") == [
        folder / "merlin", folder / "checkpoints",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"auto_map": {"AutoModel": "../other--code.Model"}}', "another place"),
        ('{"auto_map": {"AutoTokenizer": ["owner/name--code.Words", null]}}', "another place"),
        ('{"auto_map": ', "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_code_from_another_place_is_refused_though_this_one_was_allowed(folder, name, text, why):
    (folder / name).write_text(text, encoding="utf-8")
    mark = worker_volumes.code_mark([folder])
    assert why in refusal(folder, trust_remote_code=True, code_mark=mark)


def test_a_checkpoint_s_pickled_code_is_not_run_by_a_repository_either():
    assert _ENVIRONMENT["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"


def test_a_package_is_imported_from_its_own_folder_alone(tmp_path):
    """What lies beside the allowed code was not allowed."""
    package = tmp_path / "ctvqa_stand_in"
    package.mkdir()
    (package / "__init__.py").write_text("from ctvqa_stand_in import inner\n", encoding="utf-8")
    (package / "inner.py").write_text("import ctvqa_beside\n", encoding="utf-8")
    (tmp_path / "ctvqa_beside.py").write_text("", encoding="utf-8")
    with pytest.raises(ImportError, match="ctvqa_beside"):
        worker_volumes._package("ctvqa_stand_in", package)
    (package / "inner.py").write_text("value = 3\n", encoding="utf-8")
    assert worker_volumes._package("ctvqa_stand_in", package).inner.value == 3


def test_merlin_finds_its_tokenizer_beside_it_and_the_folder_is_left_again(tmp_path, monkeypatch):
    """The library looks in ./checkpoints; a worker stands in a folder of its own."""
    package = tmp_path / "merlin"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "class Merlin:\n"
        "    def __init__(self, RadiologyReport):\n"
        "        self.at, self.model = os.getcwd(), self\n"
        "        self.decode_text = self\n"
        "        self.tokenizer = None\n"
        "    def eval(self): return self\n"
        "    def to(self, device): return self\n",
        encoding="utf-8",
    )
    monkeypatch.setitem(sys.modules, "merlin", None)
    before = os.getcwd()  # noqa: PTH109
    loader = worker_volumes.Merlin(
        SimpleNamespace(float32=4), {"folder": str(tmp_path)},
        {"device": "cpu", "dtype": "float32"}, worker.Failure,
    )  # fmt: skip
    loader.load(Talk())
    assert os.path.samefile(loader.model.at, tmp_path)  # noqa: PTH121
    assert os.getcwd() == before  # noqa: PTH109


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(NotFoundError, match="no server"):
        answerer_for(Wanted("m3d-phi3", server="http://localhost:8000/v1"), None)
    (folder / "a.safetensors").unlink()
    with pytest.raises(InputFileError, match="safetensors"):
        answerer_for(Wanted("m3d-phi3", folder=str(folder), python="python3"), None)
    with pytest.raises(InputFileError, match="no folder"):
        answerer_for(Wanted("m3d-phi3", folder=str(tmp_path / "none")), None)
    with pytest.raises(NotFoundError, match="no tools"):
        answerer_for(Wanted("m3d-phi3", "agent", folder=str(folder)), None)


@pytest.mark.parametrize(("family", "preset"), PRESETS, ids=lambda x: getattr(x, "name", ""))
def test_each_is_listed_with_what_it_needs(family, preset):
    (choice,) = (c for c in choices() if c.name == preset.name)
    assert choice.modes == ("direct",) and not choice.kits
    assert "--folder" in choice.needs and "--python" in choice.needs
    assert choice.facts["source"] and choice.facts["assumed"]
    assert preset.facts["loader"] in worker_volumes.LOADERS
