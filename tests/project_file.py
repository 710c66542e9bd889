"""What pyproject.toml says, for the tests that hold it to its word."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def project():
    """Return the ``[project]`` table."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirement(extra, name):
    """Return the requirement of that name in an extra."""
    wanted = map(Requirement, project()["optional-dependencies"][extra])
    return next(need for need in wanted if need.name == name)
