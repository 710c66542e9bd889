"""The wheel built from the sdist works outside the tree, and so does the editable install."""

import ast
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from npe2 import PluginManifest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project_file import ROOT, project
from test_architecture import imported

SHELF = ROOT / "resources"
RESOURCES = sorted(p.relative_to(SHELF).as_posix() for p in SHELF.rglob("*") if p.is_file())

# Run with the neutral folder as the working folder, so that only the install can answer.
LOOK = """
import json, sys
import napari_ctvqa
from napari_ctvqa._resources import resource_path
from npe2 import PluginManager
manager = PluginManager()
manager.discover()
manifest = manager.get_manifest("napari-ctvqa")
print(json.dumps({
    "package": napari_ctvqa.__file__,
    "commands": [command.id for command in manifest.contributions.commands],
    "resources": {name: str(resource_path(name)) for name in json.loads(sys.argv[1])},
}))
"""


def test_top_level_manifest_is_the_packaged_one():
    top = PluginManifest.from_file(ROOT / "napari.yaml")
    assert top == PluginManifest.from_file(ROOT / "napari_ctvqa" / "napari.yaml")
    assert top.name == project()["name"]


def test_no_python_under_resources():
    """One such file makes hatch refuse the editable install."""
    assert list(SHELF.rglob("*.py")) == []


def test_every_resource_is_data_that_reads():
    assert RESOURCES
    for name in RESOURCES:
        if name.endswith(".json"):
            json.loads((SHELF / name).read_text(encoding="utf-8"))


def test_extras_are_the_promised_ones():
    extras = project()["optional-dependencies"]
    assert set(extras) == {
        *("gui", "local", "segment", "film", "scale", "all", "dev", "dev-models")
    }
    # a program that is started, never imported: tens of packages that nothing else here needs
    assert {Requirement(text).name for text in extras["segment"]} == {"TotalSegmentator"}
    # a library around a program: GIF and PNG are written without it
    assert {Requirement(text).name for text in extras["film"]} == {"imageio-ffmpeg"}
    # one machine needs neither
    assert {Requirement(text).name for text in extras["scale"]} == {"distributed", "cryptography"}
    assert {Requirement(text).name for text in extras["gui"]} == {"PySide6"}
    assert {Requirement(text).name for text in extras["local"]} == {
        *("torch", "torchvision", "transformers", "accelerate")
    }
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == {"gui", "local"}


def third_party(folder, leave_out=()):
    """Return the distributions that the Python files of a folder import."""
    provided_by = packages_distributions()
    names = {
        name.partition(".")[0]
        for path in (ROOT / folder).rglob("*.py")
        if path.name not in leave_out
        for name, _ in imported(ast.parse(path.read_text(encoding="utf-8")))
    }
    foreign = names - sys.stdlib_module_names - {"napari_ctvqa"}
    return {canonicalize_name(dist) for name in foreign for dist in provided_by.get(name, ())}


def test_hard_dependencies_are_those_that_are_imported():
    hard = {canonicalize_name(Requirement(text).name) for text in project()["dependencies"]}
    # The engine runs in an environment of its own, that of the extra `local`; the system keyring is
    # used where it is there, and so is ffmpeg (extra `film`).
    optional = {"worker_engine.py", "worker_volumes.py", "server_keys.py", "film.py", "cluster.py"}
    assert hard == third_party("napari_ctvqa", leave_out=optional)


def test_no_qt_binding_is_a_hard_dependency():
    hard = {Requirement(text).name.lower() for text in project()["dependencies"]}
    assert not hard & {"pyside6", "pyside2", "pyqt6", "pyqt5"}
    assert not any(Requirement(text).extras for text in project()["dependencies"])


def run(*command, cwd, **environment):
    """Run a program without this tree on its path; return what it wrote."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the sdist, and the wheel that was built from the sdist alone."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def empty_environment(folder):
    """Return the Python of an environment with the dependencies and not the project.

    It borrows them from the running one through a path file, which installing them again would
    only repeat. The running environment's own editable install is taken off the path.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = [p for p in sys.path if p.endswith("site-packages")]
    (site / "zz_borrowed.pth").write_text(
        "".join(f"import sys; sys.path.append({path!r})\n" for path in borrowed)
    )
    return python


def look(python, neutral):
    return json.loads(run(python, "-c", LOOK, json.dumps(RESOURCES), cwd=neutral))


@pytest.mark.slow
def test_sdist_holds_what_a_packager_needs_and_nothing_hidden(built):
    sdist, _ = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("README.md", "LICENSE", "Makefile", "napari.yaml", "tests/test_packaging.py"):
        assert wanted in names
    assert not [n for n in names if "__pycache__" in n or n.startswith((".venv", ".mypy_cache"))]


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_beside_it(built):
    _, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"napari_ctvqa"}
    assert {f"napari_ctvqa/resources/{name}" for name in RESOURCES} <= set(names)
    assert "napari_ctvqa/napari.yaml" in names


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_install_is_found_by_napari_and_finds_its_resources(kind, built, tmp_path):
    python = empty_environment(tmp_path / "env")
    what = [built[1]] if kind == "wheel" else ["--editable", ROOT]
    run(
        python,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--ignore-installed",
        "--quiet",
        *what,
        cwd=tmp_path,
    )

    seen = look(python, tmp_path)

    home = tmp_path / "env" if kind == "wheel" else ROOT
    assert Path(seen["package"]).is_relative_to(home)
    assert "napari-ctvqa.app" in seen["commands"]
    for name, place in seen["resources"].items():
        assert Path(place).is_relative_to(home)
        assert Path(place).read_bytes() == (SHELF / name).read_bytes()
    version = run(tmp_path / "env" / "bin" / "napari-ctvqa", "--version", cwd=tmp_path)
    assert version.strip() == f"napari-ctvqa {project()['version']}"
