"""Which models can be chosen, why one cannot be run now, and an Answerer out of a choice.

The window and the command line share this; nothing here shows anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from napari_ctvqa._resources import resource_path
from napari_ctvqa.core.errors import CtvqaError, InputFileError, NotFoundError
from napari_ctvqa.core.kits import KITS
from napari_ctvqa.core.records import no_items
from napari_ctvqa.core.servers import AT_ONCE
from napari_ctvqa.extensions import families, models
from napari_ctvqa.io import code_consents
from napari_ctvqa.io.json_files import is_file, is_folder
from napari_ctvqa.io.model_places import ModelPlace, remembered_places
from napari_ctvqa.runners import hosts, own_loaders, worker_decoding
from napari_ctvqa.runners.answering import AGENT, DIRECT, MAX_STEPS, MODES, ModelAnswerer
from napari_ctvqa.runners.confidence import Wish, wish
from napari_ctvqa.runners.kits import open_kit
from napari_ctvqa.runners.model_folder import MAX_CONFIG_BYTES, look_at, mismatch
from napari_ctvqa.runners.server import ServerWay
from napari_ctvqa.runners.server_listing import ServerError, models_of
from napari_ctvqa.runners.server_pool import ServerPool
from napari_ctvqa.runners.worker_client import WorkerSettings, WorkerWay

if TYPE_CHECKING:
    from napari_ctvqa.core.asking import Preset
    from napari_ctvqa.core.cases import Case
    from napari_ctvqa.core.ports import Family, Way
    from napari_ctvqa.evidence.kits import Kit
    from napari_ctvqa.io.code_consents import CodeConsent
    from napari_ctvqa.runners.opening import Opened

BUILT_IN, SHIPPED, PLACE, PRESET = "built in", "shipped", "place", "preset"
TOY = "toy"
_TOY_FOLDER = "demo_model"
_LOCAL_LIBRARIES = ("torch", "transformers")
_TOLD = ("loader", "recipes", "prompts", "tensor", "source", "assumed", "repository", "base")
_MODEL_FILES = (".json", ".jinja", ".safetensors", ".bin", ".model", ".txt")


@dataclass(frozen=True, slots=True)
class Choice:
    """A model that can be chosen.

    Parameters
    ----------
    name, title
        For ``--model``, and for people.
    kind
        ``built in`` (no model: rules), ``shipped`` (the toy), ``place`` (a server or folder that
        was used before), ``preset`` (a server or folder must be given).
    needs
        What has to be given or be there, in words; empty for nothing.
    unavailable
        Why it cannot be run now; empty when it can, or when its needs are given.
    modes, kits
        How it can answer, and the tools that an agent can be given.
    preset
        How it is fed; empty for ``built in``.
    place
        Where it is, of kind ``place``.
    facts
        Size of the weights, licence, gated: for a person who chooses.
    """

    name: str
    title: str
    kind: str
    needs: str = ""
    unavailable: str = ""
    modes: tuple[str, ...] = ()
    kits: tuple[str, ...] = ()
    preset: str = ""
    place: ModelPlace | None = None
    facts: Mapping[str, Any] = field(default_factory=no_items)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person chose to run.

    ``model`` is the name of a Choice. ``settings`` change the preset (``max_slices``, ``plane``
    …, see the family). ``server`` may name several servers of the same model, blanks between
    them; ``at_once`` is how many questions each is asked at once, 0 for 1, or ``AT_ONCE`` where
    there are several. ``predicted`` are folders of predicted masks, ``from_files`` prefers the
    benchmark's own caches and pictures over what is computed from masks.
    """

    model: str
    mode: str = DIRECT
    kit: str = ""
    server: str = ""
    server_model: str = ""
    folder: str = ""
    python: str = ""
    device: str = ""
    max_steps: int = MAX_STEPS
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=no_items)
    predicted: tuple[Path, ...] = ()
    from_files: bool = False
    repository: str = ""
    """The folder of the model's own code, where its loader needs one."""
    base: str = ""
    """The folder of the model that its weights were trained upon, where its loader needs one."""
    idle_s: float | None = None
    """After how many seconds without a question a worker ends itself; None for never."""
    at_once: int = 0
    decoding: str = ""
    """How tokens are chosen, e.g. ``semsam:K=8``; of models that run here. Empty: as usual."""
    confidence: str = ""
    """``logits`` or ``samples:N@T``: how to tell how sure the model is. Empty: not at all."""

    @property
    def shown_name(self) -> str:
        """Return what to call it for people, until who answers has told its own name."""
        return self.model.partition("@")[0]


class UnconfirmedHostError(CtvqaError):
    """Pixels would leave this machine for a host that nobody has confirmed yet."""

    code = "host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Pixels of the CT would be sent to {host}, which has not been confirmed.",
            hint="Confirm that host once: --confirm-host on the command line.",
        )
        self.host = host


# ----------------------------------------------------------------------------------------- listing


def choices() -> tuple[Choice, ...]:
    """Return all that can be chosen: built in, shipped, remembered places, presets.

    Asks no server.
    """
    built_in = [
        Choice(name, str(model.title), BUILT_IN, modes=(DIRECT,), kits=tuple(model.kits))
        for name, model in sorted(models().items())
    ]
    listed = [_preset_choice(family, preset) for family, preset in _presets().values()]
    shipped = [choice for choice in listed if choice.kind == SHIPPED]
    presets = [choice for choice in listed if choice.kind == PRESET]
    return (*built_in, *shipped, *_place_choices(), *presets)


def _presets() -> dict[str, tuple[Family, Preset]]:
    return {
        name: (family, preset)
        for _, family in sorted(families().items())
        for name, preset in family.presets.items()
    }


def _preset_choice(family: Family, preset: Preset) -> Choice:
    loader = own_loaders.loader_of(preset)
    facts = {
        "hf_ids": preset.hf_ids, "weights_gb": preset.weights_gb, "licence": preset.licence,
        "gated": preset.gated, "toy": preset.toy,
        **{key: preset.facts[key] for key in _TOLD if key in preset.facts},
    }  # fmt: skip
    choice = Choice(
        preset.name,
        preset.title,
        PRESET,
        own_loaders.needs_of(preset)
        if loader
        else "a server (--server) or a model folder (--folder)",
        modes=modes_of(family),
        kits=KITS if AGENT in modes_of(family) else (),
        preset=preset.name,
        facts=facts,
    )
    if not preset.toy:
        return choice
    return replace(
        choice, kind=SHIPPED, needs="torch and transformers", unavailable=_toy_unavailable()
    )


def trust_code(wanted: Wanted) -> CodeConsent | None:
    """Allow the code of a chosen model to run, in its present state, and remember that.

    Returns what was allowed, None for a model that has no code. Raises CtvqaError when it cannot
    be kept.
    """
    wanted = _with_place(wanted)
    if wanted.model in models() or not wanted.folder:
        return None
    _, preset = _preset_for(wanted)
    if not own_loaders.loader_of(preset):
        return None
    folder = Path(wanted.folder).expanduser().absolute()
    given = wanted.repository
    repository = str(Path(given).expanduser().absolute()) if given else ""
    consent = own_loaders.consent_for(preset, folder, repository)
    if consent is not None:
        code_consents.allow(consent)
    return consent


def _own_facts(preset: Preset) -> Mapping[str, Any]:
    """Return what a person sets of a model that its own code loads; nothing for others."""
    if not own_loaders.loader_of(preset):
        return {}
    return {key: preset.facts[key] for key in ("loader", "recipes") if key in preset.facts}


def modes_of(family: Family) -> tuple[str, ...]:
    """Return how models of a family can answer: all ways, unless it names its own."""
    return tuple(getattr(family, "modes", MODES))


def _toy_unavailable() -> str:
    if shipped_folder() is None:
        return "its files are missing: install napari-ctvqa anew"
    missing = missing_libraries()
    if missing:
        return (
            f"{' and '.join(missing)} not installed: pip install 'napari-ctvqa[local]', or name "
            "a Python that has them (--python)"
        )
    return ""


def shipped_folder() -> Path | None:
    """Return the folder of the shipped model, None where the install lacks it."""
    try:
        folder = resource_path(_TOY_FOLDER)
    except FileNotFoundError:
        return None
    return folder if is_file(folder / "config.json") else None


def missing_libraries() -> list[str]:
    """Return what a local model needs and our own Python lacks; imports nothing."""
    return [name for name in _LOCAL_LIBRARIES if importlib.util.find_spec(name) is None]


def _place_choices() -> list[Choice]:
    """Return the places, newest first; of two with the same model the older one has a longer name.

    That name is its own for good: the newest place of a model answers to both. So has one that is
    called as a preset.
    """
    presets = _presets()
    taken = {*presets, *models()}
    found: dict[str, Choice] = {}
    for place in remembered_places():
        known = presets.get(place.preset)
        short, long = place_names(place)
        name = long if short in found or short in taken else short
        found.setdefault(
            name,
            Choice(
                name,
                _place_title(place),
                PLACE,
                unavailable=_place_unavailable(place, known=known is not None),
                modes=MODES if known is None else modes_of(known[0]),
                kits=KITS if known is None or AGENT in modes_of(known[0]) else (),
                preset=place.preset,
                place=place,
                facts={} if known is None else _own_facts(known[1]),
            ),
        )
    return list(found.values())


def place_names(place: ModelPlace) -> tuple[str, str]:
    """Return the names that a place goes by: its model's, and that with where it is."""
    model = run_name(place_model(place))
    where = f"{place.preset}\n{place.server}\n{place.model}\n{place.folder}\n{place.python}"
    return model, f"{model}@{hashlib.sha256(where.encode()).hexdigest()[:6]}"


def _place_title(place: ModelPlace) -> str:
    servers = place.server.split()
    if len(servers) > 1:
        return f"{place_model(place)} on {len(servers)} servers, {servers[0]} …"
    return f"{place_model(place)} on {place.server}" if servers else place.folder


def _place_unavailable(place: ModelPlace, *, known: bool) -> str:
    if not known:
        return f"there is no preset {place.preset!r} any more"
    if place.folder:
        if not is_folder(Path(place.folder)):
            return f"{place.folder} is not there"
        missing = [] if place.python else missing_libraries()
        return f"{' and '.join(missing)} not installed, and no --python" if missing else ""
    try:
        asked = hosts.hosts_of(place.server)
    except CtvqaError as error:
        return error.message
    unknown = [host for host in asked if not hosts.is_allowed(host)]
    return f"the host {unknown[0]} is not confirmed" if unknown else ""


def place_model(place: ModelPlace) -> str:
    """Return what the model of a place is called."""
    return place.model if place.server else Path(place.folder).name


def run_name(model: str) -> str:
    """Return a model's name as runs and result files carry it: ``Qwen3-VL-8B-Instruct``."""
    last = model.rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip(".-")[:80] or "model"


def offered_by(server: str) -> tuple[str, ...] | str:
    """Ask a server for its models; return their names, or why it cannot be used.

    Of several servers the first that answers speaks for all.
    """
    why = ""
    for one in server.replace(",", " ").split():
        try:
            return models_of(one).models
        except CtvqaError as error:
            why = why or str(error)
    return why


def model_unavailable(model: str, offered: tuple[str, ...] | str) -> str:
    """Return why a model cannot be used on a server that ``offered_by`` asked, or empty."""
    if isinstance(offered, str):
        return offered
    return "" if model in offered else f"the server does not offer it; it has {_named(offered)}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# ---------------------------------------------------------------------------------------- building


def answerer_for(wanted: Wanted, opened: Opened) -> Any:
    """Return the Answerer of a choice; ``close`` it where it has that.

    Raises
    ------
    UnconfirmedHostError
        When pixels would go to a host that nobody has confirmed.
    NotFoundError
        For a model, preset, kit or mode that there is not, and where needs are not given.
    CtvqaError
        When a server cannot be asked which models it has.
    """
    built_in = models().get(wanted.model)
    if built_in is not None:
        _check_no_wishes(wanted)
        return built_in
    wanted = _with_place(wanted)
    family, preset = _preset_for(wanted)
    _check_mode(wanted, modes_of(family))
    decoding, confidence = _decoding_of(wanted, preset), _confidence_of(wanted, preset)
    way, model_id = _way(wanted, preset)
    base = _base_name(wanted, preset, model_id)
    agent = wanted.mode == AGENT
    kit = (wanted.kit or KITS[0]) if agent else ""
    return ModelAnswerer(
        f"{base}-agent-{kit}" if agent else base,
        f"{way.title}, agent with kit {kit}" if agent else way.title,
        family,
        preset,
        way,
        mode=wanted.mode,
        kit=kit,
        kit_of=KitOfCase(opened, kit, wanted.predicted, wanted.from_files) if agent else None,
        kit_from="files" if agent and wanted.from_files else "",
        settings=_settings(wanted, preset),
        max_steps=wanted.max_steps,
        seed=wanted.seed,
        way_kind="server" if isinstance(way, ServerWay | ServerPool) else "worker",
        model_id=model_id,
        decoding=decoding,
        confidence=confidence,
    )


def _check_no_wishes(wanted: Wanted) -> None:
    for option, value in (("decoding", wanted.decoding), ("confidence", wanted.confidence)):
        if value:
            raise NotFoundError(
                f"{wanted.model} is no model: it has no {option}.",
                hint=f"Leave --{option} away, or choose a model with --model.",
            )


def _decoding_of(wanted: Wanted, preset: Preset) -> str:
    """Return how tokens are chosen, with every value in it; empty for as usual."""
    if not wanted.decoding:
        return ""
    try:
        found = worker_decoding.settings(wanted.decoding).text
    except ValueError as error:
        raise CtvqaError(f"{error}.", hint="Correct --decoding.") from None
    if wanted.server or own_loaders.draws_as_it_likes(preset):
        where = "on a server" if wanted.server else f"of {preset.title}"
        raise NotFoundError(
            f"MIS-SemSam chooses each token itself; the tokens {where} cannot be chosen from here.",
            hint="Give the model's folder (--folder), or leave --decoding away.",
        )
    return found


def _confidence_of(wanted: Wanted, preset: Preset) -> Wish | None:
    if not wanted.confidence:
        return None
    if wanted.mode == AGENT:
        raise NotFoundError(
            "how sure a model is can be told of direct answers, not of an agent's.",
            hint="Leave --confidence away, or --mode agent.",
        )
    if own_loaders.draws_as_it_likes(preset):
        raise NotFoundError(
            f"How sure {preset.title} is cannot be told: its own code takes no temperature, so it "
            "would say the same each time, sure or not.",
            hint="Leave --confidence away.",
        )
    return wish(wanted.confidence)


def _settings(wanted: Wanted, preset: Preset) -> Mapping[str, Any]:
    """Return the settings; DeepTumorVQA's agents are sent no picture unless a number is given.

    The shipped model was trained to call tools beside its slices.
    """
    if wanted.mode == AGENT and not preset.toy:
        return {"max_slices": 0, **wanted.settings}
    return wanted.settings


def _with_place(wanted: Wanted) -> Wanted:
    """Return a remembered place's model as if its server or folder had been given."""
    preset = _presets().get(wanted.model)
    if wanted.server or wanted.folder or (preset is not None and preset[1].toy):
        return wanted
    places = remembered_places()
    place = next((place for place in places if wanted.model in place_names(place)), None)
    if place is None:
        return wanted
    return replace(
        wanted,
        model=place.preset,
        server=place.server,
        server_model=place.model,
        folder=place.folder,
        python=wanted.python or place.python,
        device=wanted.device or place.device,
        repository=wanted.repository or place.repository,
        base=wanted.base or place.base,
    )


def _preset_for(wanted: Wanted) -> tuple[Family, Preset]:
    presets = _presets()
    if wanted.model not in presets:
        known = dict.fromkeys(choice.name for choice in choices())
        raise NotFoundError(
            f"no model is called {wanted.model!r}; there are {', '.join(known)}.",
            hint="Give one of these to --model.",
        )
    return presets[wanted.model]


def _check_mode(wanted: Wanted, modes: Sequence[str]) -> None:
    if wanted.mode not in MODES:
        raise NotFoundError(
            f"there is no mode {wanted.mode!r}; there are {', '.join(MODES)}.", hint="Choose one."
        )
    if wanted.mode not in modes:
        raise NotFoundError(
            f"{wanted.model} calls no tools of ours; it answers {', '.join(modes)}.",
            hint="Leave --mode away.",
        )
    if wanted.kit and wanted.mode != AGENT:
        raise NotFoundError(
            f"the kit {wanted.kit!r} is for agents, and the mode is {wanted.mode}.",
            hint="Add --mode agent, or leave --kit away.",
        )
    if wanted.kit and wanted.kit not in KITS:
        raise NotFoundError(
            f"{wanted.model} has no tool kit {wanted.kit!r}; it has: {', '.join(KITS)}.",
            hint="Give one of these to --kit, or leave it away.",
        )


def _way(wanted: Wanted, preset: Preset) -> tuple[Way, str]:
    """Return how it is run, and the model's own name there."""
    if wanted.server and wanted.folder:
        raise NotFoundError("both a server and a folder are given.", hint="Give one of them.")
    if own_loaders.loader_of(preset):
        return _own_worker(wanted, preset)
    if wanted.server:
        return _served(wanted, preset)
    if wanted.folder:
        folder = Path(wanted.folder).expanduser().absolute()
        check_folder(folder, preset)
        return _worker(folder, folder.name, wanted, preset), f"{folder.name} {_content(folder)}"
    if not preset.toy:
        raise NotFoundError(
            f"{preset.name} says how a model is fed, not where it is.",
            hint="Give --server URL, or --folder PATH with the model's files.",
        )
    shipped = shipped_folder()
    missing = [] if wanted.python else missing_libraries()
    if shipped is None or missing:
        raise NotFoundError(f"the shipped model cannot be run: {_toy_unavailable()}.")
    return _worker(shipped, preset.title, wanted, preset), f"{preset.name} {_content(shipped)}"


def _served(wanted: Wanted, preset: Preset) -> tuple[Way, str]:
    """Return one server as it is, several as a pool; every host has been confirmed."""
    urls = hosts.servers_of(wanted.server)
    if not urls:
        raise NotFoundError("no server is given.", hint="Give e.g. --server http://gpu7:8000/v1.")
    for host in hosts.hosts_of(wanted.server):
        if not hosts.is_allowed(host):
            raise UnconfirmedHostError(host)
    model = wanted.server_model or _common_model(urls, preset)
    at_once = wanted.at_once or (AT_ONCE if len(urls) > 1 else 1)
    if len(urls) == 1 and at_once == 1:
        return ServerWay(urls[0], model), model
    ways = [ServerWay(url, model, patient=False) for url in urls]
    return ServerPool(ways, at_once=at_once), model


def _common_model(urls: Sequence[str], preset: Preset) -> str:
    """Return the model that the servers which answer now have in common.

    A server that is down now may come back: the others tell what it will be asked for.
    """
    named: dict[str, str] = {}
    problem: CtvqaError | None = None
    for url in urls:
        try:
            named[url] = _only_model(url, preset)
        except ServerError as error:
            problem = problem or error
    if not named:
        assert problem is not None
        raise problem
    found = list(dict.fromkeys(named.values()))
    if len(found) > 1:
        said = "; ".join(f"{url} has {name}" for url, name in named.items())
        raise NotFoundError(
            f"the servers have different models: {said}.",
            hint="Name the one that all of them have with --server-model.",
        )
    return found[0]


def _own_worker(wanted: Wanted, preset: Preset) -> tuple[Way, str]:
    """Return the worker of a model that its own code loads, and the model's name.

    Raises UnconfirmedCodeError until a person has allowed that code.
    """
    if wanted.server or not wanted.folder:
        raise NotFoundError(
            f"{preset.title} takes a volume, which no server takes; it is loaded from a folder.",
            hint=f"Needed: {own_loaders.needs_of(preset)}.",
        )
    folder = Path(wanted.folder).expanduser().absolute()
    repository, base = (
        str(Path(given).expanduser().absolute()) if given else ""
        for given in (wanted.repository, wanted.base)
    )
    own_loaders.check_files(preset, folder, repository, base)
    consent = own_loaders.consent_for(preset, folder, repository)
    own_loaders.check_consent(consent)
    settings = replace(
        _worker(folder, folder.name, wanted, preset).settings,
        loader=own_loaders.loader_of(preset),
        repository=repository,
        base=base,
        trust_remote_code=consent is not None,
        code_mark="" if consent is None else consent.mark,
    )
    mark = "" if consent is None else f" code {consent.mark}"
    return WorkerWay(settings), f"{folder.name} {_content(folder)}{mark}"


def _base_name(wanted: Wanted, preset: Preset, model_id: str) -> str:
    if wanted.folder:
        return run_name(Path(wanted.folder).name)
    return run_name(model_id) if wanted.server else preset.name


def _content(folder: Path) -> str:
    """Return a mark of what is in a model folder: its small files, names and sizes of weights.

    Two folders of one name are two models; hashing gigabytes of weights would take minutes.
    """
    mark = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.suffix in _MODEL_FILES:
            size = file.stat().st_size
            mark.update(f"{file.name} {size}\n".encode())
            mark.update(file.read_bytes() if size <= MAX_CONFIG_BYTES else b"")
    return mark.hexdigest()[:12]


def _worker(folder: Path, title: str, wanted: Wanted, preset: Preset) -> WorkerWay:
    return WorkerWay(
        WorkerSettings(
            folder,
            title,
            interpreter_of(wanted.python),
            device=wanted.device or "auto",
            never_fp16=preset.never_fp16,
            idle_s=wanted.idle_s,
            # The toy was checked in float32, and what it says must be the same everywhere.
            dtype="float32" if preset.toy else "auto",
        )
    )


def interpreter_of(python: str) -> str:
    """Return what starts a Python: ours for none given, an absolute path, or a name on PATH.

    The model's process starts in a folder of its own, where a relative path leads nowhere. A
    link is not followed: it is what tells an environment from the Python that it was made with.
    """
    if not python:
        return sys.executable
    path = Path(python).expanduser()
    return python if path.name == python else str(path.absolute())


def check_folder(folder: Path, preset: Preset) -> None:
    """Raise where a folder holds no model, or one of another kind than the preset is for."""
    found = look_at(folder)
    if found.problem:
        raise InputFileError(folder, found.problem, hint=found.hint)
    problem, hint = mismatch(found, preset)
    if problem:
        raise InputFileError(folder / "config.json", problem, hint=hint)


def _only_model(server: str, preset: Preset) -> str:
    """Return the server's model that the preset is written for, or its only one."""
    offered = models_of(server).models
    known = {name.rsplit("/", 1)[-1].casefold() for name in preset.hf_ids}
    fitting = [name for name in offered if name.rsplit("/", 1)[-1].casefold() in known]
    found = fitting or list(offered)
    if len(found) == 1:
        return found[0]
    raise NotFoundError(
        f"{server} offers {_named(offered) or 'no model'}; which one to ask is not clear.",
        hint="Name it with --server-model.",
    )


def place_of(wanted: Wanted, answerer: Any) -> ModelPlace | None:
    """Return what to remember of a choice that was run; None for what needs no place."""
    if not isinstance(answerer, ModelAnswerer) or not (wanted.server or wanted.folder):
        return None
    if isinstance(answerer.way, ServerWay):
        return ModelPlace(answerer.preset.name, answerer.way.url, answerer.model_id)
    if isinstance(answerer.way, ServerPool):
        return ModelPlace(answerer.preset.name, " ".join(answerer.way.urls), answerer.model_id)
    folder = str(Path(wanted.folder).expanduser().absolute())
    python, device = wanted.python and interpreter_of(wanted.python), wanted.device
    repository, base = (
        str(Path(given).expanduser().absolute()) if given else ""
        for given in (wanted.repository, wanted.base)
    )
    return ModelPlace(
        answerer.preset.name,
        folder=folder,
        python=python,
        device=device,
        repository=repository,
        base=base,
    )


class KitOfCase:
    """Opens an agent's kit for a case; once for all questions of it, or of two."""

    def __init__(
        self, opened: Opened, name: str, predicted: Sequence[Path], from_files: bool
    ) -> None:
        self._opened, self._name = opened, name
        self._predicted, self._from_files = tuple(predicted), from_files
        self._lock = Lock()
        self._last: list[tuple[Case, Kit]] = []

    def named(self, name: str) -> KitOfCase:
        """Return the same with another kit."""
        return KitOfCase(self._opened, name, self._predicted, self._from_files)

    def __call__(self, case: Case) -> Kit:
        """Return the kit; from any thread. Raises CtvqaError when it has nothing to stand on."""
        with self._lock:  # questions of two cases may be asked at once: none gets the other's kit
            for known, kit in self._last:
                if known is case:
                    return kit
            kit = open_kit(
                self._opened,
                self._name,
                case,
                predicted_roots=self._predicted,
                prefer_files=self._from_files,
            )
            self._last = [(case, kit), *self._last[:1]]
            return kit
