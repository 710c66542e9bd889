"""What can be said of a model folder without loading it: kind, size, presets, what is wrong.

Reads a few small files and the sizes of the rest; no torch, no transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.extensions import families
from napari_ctvqa.io.json_files import is_file, is_folder, read_json
from napari_ctvqa.runners.worker_engine import needed_bytes, stored_dtype, weight_files

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.ports import Family

MAX_CONFIG_BYTES = 10_000_000
_INDEX = "model.safetensors.index.json"
_LFS = b"version https://git-lfs"
_SEES = ("vision_config", "vit_config", "visual", "vision_tower")
_PROCESSORS = ("processor_config.json", "preprocessor_config.json")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model folder as far as its files tell.

    Parameters
    ----------
    model_type
        Of ``config.json``, e.g. ``qwen3_vl``; empty when there is none.
    weight_bytes
        Of the safetensors files together.
    dtype
        In which the weights are stored.
    presets
        Family and preset names written for this ``model_type``.
    problem, hint
        Why it cannot be loaded, and what to do; empty when nothing speaks against it.
    """

    folder: Path
    model_type: str = ""
    weight_bytes: int = 0
    dtype: str = ""
    presets: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    hint: str = ""

    def needed_bytes(self, dtype: str) -> int:
        """Return about how much memory it takes when loaded in this dtype, with a long question.

        Raises OSError or ValueError when the folder has changed and cannot be read any more.
        """
        return needed_bytes(self.folder, dtype)


def look_at(folder: Path) -> ModelFolder:
    """Return what is known of a folder; never raises for what lies in it."""
    if not is_folder(folder):
        return ModelFolder(folder, problem="is no folder.", hint="Give a model's folder.")
    problem, hint = _no_transformers_folder(folder)
    if problem:
        return ModelFolder(folder, problem=problem, hint=hint)
    try:
        config = read_json(folder / "config.json", max_bytes=MAX_CONFIG_BYTES)
    except CtvqaError as error:
        return ModelFolder(folder, problem=f"has no usable config.json: {error.message}")
    if not isinstance(config, Mapping) or not isinstance(config.get("model_type"), str):
        return ModelFolder(
            folder,
            problem="has a config.json that names no model_type.",
            hint="Give the folder that save_pretrained or a download made.",
        )
    problem, hint = _unusable(folder, config)
    try:
        weight_bytes = sum(path.stat().st_size for path in weight_files(folder))
    except OSError:  # said by ``problem``
        weight_bytes = 0
    return ModelFolder(
        folder,
        config["model_type"],
        weight_bytes,
        stored_dtype(dict(config)),
        fitting(config["model_type"]),
        problem,
        hint,
    )


def fitting(model_type: str) -> tuple[tuple[str, str], ...]:
    """Return family and preset names that are written for a ``model_type``."""
    known: Mapping[str, Family] = families()
    return tuple(
        (name, preset.name)
        for name, family in known.items()
        for preset in family.presets.values()
        if model_type in preset.model_types
    )


def mismatch(found: ModelFolder, preset: Preset) -> tuple[str, str]:
    """Return why a preset does not fit a folder, and what to do; empty when it does."""
    if not preset.model_types or found.model_type in preset.model_types:
        return "", ""
    names = [name for _, name in found.presets]
    return (
        f"the model is a {found.model_type[:80]!r}; {preset.name} is for "
        f"{', '.join(preset.model_types)}.",
        f"Fitting: --model {' or '.join(names)}." if names else "Choose another.",
    )


def _no_transformers_folder(folder: Path) -> tuple[str, str]:
    """Return what a folder without ``config.json`` probably is."""
    if is_file(folder / "config.json"):
        return "", ""
    if any(folder.glob("*.gguf")):
        return (
            "holds a GGUF file, which transformers does not load.",
            "Serve it with llama.cpp or Ollama and give --server URL.",
        )
    if is_file(folder / "adapter_config.json"):
        return (
            "holds an adapter without its model.",
            "Merge it into its base model and save that.",
        )
    snapshots = sorted(path for path in folder.glob("snapshots/*") if is_folder(path))
    if snapshots:
        return "is a download cache, not a model folder.", f"Give {snapshots[-1]}."
    return (
        "is no model folder: it has no config.json.",
        "Give the folder that save_pretrained or a download made.",
    )


def _unusable(folder: Path, config: Mapping[str, Any]) -> tuple[str, str]:
    """Return why the files of a model cannot be loaded, and what to do."""
    weights = weight_files(folder)
    if not weights:
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
            return (
                "has its weights in pickle files, which can run code when they are read.",
                "Take the model's safetensors version, or convert it.",
            )
        return "has no weights (*.safetensors).", "Download the whole model."
    try:
        pointers = [path.name for path in weights if _is_pointer(path)]
    except OSError as error:  # a link to a file that was cleaned away, no right to read it
        name = Path(str(error.filename)).name
        return (
            f"holds {name}, which cannot be read ({error.strerror}).",
            "Download the model again, or make the file readable.",
        )
    if pointers:
        return (
            f"holds {pointers[0]} as a Git LFS pointer, not its content.",
            "Run `git lfs pull` in it.",
        )
    missing = _missing_shards(folder)
    if missing:
        return (
            f"lacks {len(missing)} of its weight files, the first is {missing[0]}.",
            "Finish the download.",
        )
    if not any(key in config for key in _SEES) and not fitting(str(config["model_type"])):
        return (
            f"holds a {str(config['model_type'])[:80]!r}, which takes no pictures.",
            "Take a vision-language model.",
        )
    if not any(is_file(folder / name) for name in _PROCESSORS):
        return (
            "has no processor_config.json or preprocessor_config.json, so pictures cannot be "
            "prepared.",
            "Copy the processor's files from where the model came from.",
        )
    return "", ""


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def _missing_shards(folder: Path) -> list[str]:
    """Return files that the index of the weights names and that are not there."""
    if not is_file(folder / _INDEX):
        return []
    try:
        index = read_json(folder / _INDEX, max_bytes=MAX_CONFIG_BYTES)
    except CtvqaError:
        return [_INDEX]
    names = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(names, Mapping):
        return [_INDEX]
    # Names that lead out of the folder are nothing we look for.
    files = sorted({Path(str(name)).name for name in names.values()})
    return [name for name in files if not is_file(folder / name)]
