"""The rules that keep the parts apart: who imports whom, and what nobody writes."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "napari_ctvqa"
MODULES = sorted(PACKAGE.rglob("*.py"))

# For each part, the parts of ours it may import. A part may always import itself, except where
# its files are extensions that must not know each other.
ALLOWED = {
    "core": set(),
    "io": {"core"},
    "benchmarks": {"core", "io"},
    "models": {"core", "io"},
    "tools": {"core", "io"},
    "exports": {"core", "io"},
    "evidence": {"core", "io", "benchmarks", "models", "tools", "exports"},
    "runners": {"core", "io", "benchmarks", "models", "tools", "exports", "evidence"},
    "demo": {"core.errors"},
    "commands": {
        *("core", "io", "benchmarks", "models", "tools", "exports", "evidence", "runners", "demo"),
        *("_libraries", "cli"),
    },
    "widgets": {
        *("core", "io", "benchmarks", "models", "tools", "exports", "evidence", "runners", "demo")
    },
    "extensions": set(),
    "_libraries": set(),
    "_resources": set(),
    "cli": {"core"},
    "__main__": {"cli"},
    "__init__": set(),
}
SHARED = {"_resources", "extensions", "__init__"}
STRANGERS = ("benchmarks", "models", "tools", "exports", "commands", "widgets.panels")
TOOLKITS = {"qtpy", "PySide6", "PyQt6", "PyQt5", "napari", "vispy", "magicgui", "superqt"}
NEVER = {"torch", "torchvision", "transformers", "accelerate"}
IN_THE_WORKER = ("runners.worker_engine", "runners.worker_volumes")
DEMO_MAY_IMPORT = {"numpy", "scipy", "nibabel", "platformdirs"}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(path: Path) -> str:
    """Return the module name below the package: ``"core.errors"``; a package is its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every absolute module name that a tree imports, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def inside(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def own_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for name, line in imported(tree):
        if name.startswith("napari_ctvqa."):
            yield name.removeprefix("napari_ctvqa."), line


def arrow_faults(module: str, tree: ast.Module) -> list[str]:
    """Return a sentence for every import that points the wrong way."""
    part = module.split(".")[0]
    if part == "_plugin":
        return []
    faults = []
    for name, line in own_imports(tree):
        target = name.split(".")[0]
        if target == part or target in SHARED or name == "__version__":
            continue
        if any(inside(name, allowed) for allowed in ALLOWED[part]):
            continue
        if part == "commands" and target == "widgets" and line in lines_in_functions(tree):
            continue
        faults.append(f"{module}:{line} imports {name}")
    return faults


def lines_in_functions(tree: ast.Module) -> set[int]:
    """Return the lines that are only run when a function is called."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, functions)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def stranger_faults(module: str, tree: ast.Module) -> list[str]:
    """Return the imports from one extension file to another of the same kind."""
    faults = []
    for kind in STRANGERS:
        if not module.startswith(f"{kind}."):
            continue
        for name, line in own_imports(tree):
            other = name.removeprefix(f"{kind}.")
            private = other.startswith("_")
            itself = inside(name, module)
            if name.startswith(f"{kind}.") and not private and not itself:
                faults.append(f"{module}:{line} imports its sibling {name}")
    return faults


def third_party_faults(module: str, tree: ast.Module) -> list[str]:
    part = module.split(".")[0]
    faults = []
    for name, line in imported(tree):
        root = name.split(".")[0]
        if root in TOOLKITS and part not in {"widgets", "_plugin"}:
            faults.append(f"{module}:{line} imports {root}; only widgets/ and _plugin.py may")
        if root in {"PySide6", "PyQt6", "PyQt5"}:
            faults.append(f"{module}:{line} imports {root}; Qt comes through qtpy")
        if root in NEVER and module not in IN_THE_WORKER:
            faults.append(f"{module}:{line} imports {root} into napari's process")
        foreign = root != "napari_ctvqa" and root not in sys.stdlib_module_names
        if part == "demo" and foreign and root not in DEMO_MAY_IMPORT:
            faults.append(f"{module}:{line} imports {root}; the demo is made without it")
    return faults


def forbidden_calls(module: str, tree: ast.Module) -> list[str]:
    """Return the calls and modules that this project does without."""
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in {"print", "eval", "exec"}:
                faults.append(f"{module}:{node.lineno} calls {name}()")
            for keyword in node.keywords:
                switched_on = (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                )
                if keyword.arg in {"allow_pickle", "shell"} and switched_on:
                    faults.append(f"{module}:{node.lineno} sets {keyword.arg}=True")
        elif isinstance(node, ast.ImportFrom) and node.level:
            faults.append(f"{module}:{node.lineno} is a relative import")
    for name, line in imported(tree):
        if name.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}:
            faults.append(f"{module}:{line} imports {name}")
    return faults


def undocumented(module: str, tree: ast.Module) -> list[str]:
    return [] if ast.get_docstring(tree) else [f"{module} does not say what it is"]


CHECKS = (arrow_faults, stranger_faults, third_party_faults, forbidden_calls, undocumented)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_module_keeps_the_rules(path):
    module, tree = dotted(path), parse(path)
    assert [fault for check in CHECKS for fault in check(module, tree)] == []


@pytest.mark.parametrize(
    ("check", "module", "code"),
    [
        (arrow_faults, "core.cases", "from napari_ctvqa.io.reader import read_case"),
        (arrow_faults, "io.reader", "from napari_ctvqa import runners"),
        (arrow_faults, "benchmarks.table", "def f():\n    import napari_ctvqa.tools.measure"),
        (arrow_faults, "runners.batch", "from napari_ctvqa.widgets import app"),
        (arrow_faults, "commands.open", "from napari_ctvqa.widgets.launch import run_app"),
        (arrow_faults, "demo.phantom", "from napari_ctvqa.core.measure import volume_cm3"),
        (stranger_faults, "benchmarks.a", "from napari_ctvqa.benchmarks import b"),
        (stranger_faults, "widgets.panels.a", "from napari_ctvqa.widgets.panels.b import PANEL"),
        (third_party_faults, "core.session", "from qtpy.QtCore import QObject"),
        (third_party_faults, "widgets.app", "from PySide6.QtCore import QObject"),
        (third_party_faults, "models.vlm", "def f():\n    import torch.nn"),
        (third_party_faults, "demo.phantom", "import skimage"),
        (forbidden_calls, "core.a", "print(1)"),
        (forbidden_calls, "core.a", "eval('1')"),
        (forbidden_calls, "core.a", "import pickle"),
        (forbidden_calls, "core.a", "numpy.load(p, allow_pickle=True)"),
        (forbidden_calls, "core.a", "subprocess.run(c, shell=True)"),
        (forbidden_calls, "core.a", "from . import b"),
        (undocumented, "core.a", "import json"),
    ],
)
def test_a_planted_fault_is_seen(check, module, code):
    assert check(module, ast.parse(code)) != []


def test_widgets_may_be_imported_when_a_command_runs():
    code = "def run():\n    from napari_ctvqa.widgets.launch import run_app"
    assert arrow_faults("commands.open", ast.parse(code)) == []


def test_lower_layers_load_no_toolkit():
    """Import everything below widgets in one fresh process and look at what came along."""
    below = [
        f"napari_ctvqa.{dotted(path)}"
        for path in MODULES
        if dotted(path).split(".")[0] not in {"widgets", "_plugin", "__main__", "__init__"}
    ]
    code = (
        "import importlib, sys\n"
        f"for name in {below!r}: importlib.import_module(name)\n"
        f"print(sorted({TOOLKITS | NEVER!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
