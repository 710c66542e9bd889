"""What is known of a server and model: its kind, what it takes, what a probe found; remembered."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any

from napari_ctvqa.io.user_config import config_folder, store_object, stored_object
from napari_ctvqa.runners.hosts import host_of

logger = logging.getLogger(__name__)

_FILE = "server_profiles.json"
_MOST_PROFILES = 200
_storing = Lock()
"""Several servers of one run learn at once; each adds to the file what it has learned."""


class Kind(StrEnum):
    """Which server program or provider answers."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRANSFORMERS = "transformers"
    OLLAMA = "ollama"
    LLAMACPP = "llamacpp"
    LM_STUDIO = "lm_studio"
    OPENAI = "openai"
    GEMINI = "gemini"
    ANTHROPIC = "anthropic"
    UNKNOWN = "unknown"


TITLES: Mapping[Kind, str] = {
    Kind.VLLM: "vLLM",
    Kind.SGLANG: "SGLang",
    Kind.TRANSFORMERS: "transformers serve",
    Kind.OLLAMA: "Ollama",
    Kind.LLAMACPP: "llama.cpp server",
    Kind.LM_STUDIO: "LM Studio",
    Kind.OPENAI: "OpenAI",
    Kind.GEMINI: "Gemini",
    Kind.ANTHROPIC: "Anthropic",
    Kind.UNKNOWN: "server",
}
_HOSTS = {
    "api.openai.com": Kind.OPENAI,
    "generativelanguage.googleapis.com": Kind.GEMINI,
    "api.anthropic.com": Kind.ANTHROPIC,
}
_OWNERS = {
    "vllm": Kind.VLLM,
    "sglang": Kind.SGLANG,
    "llamacpp": Kind.LLAMACPP,
    "library": Kind.OLLAMA,
    "organization_owner": Kind.LM_STUDIO,
}
_PORTS = {11434: Kind.OLLAMA, 1234: Kind.LM_STUDIO, 30000: Kind.SGLANG}


class Pictures(StrEnum):
    """Whether pictures reach the model, as far as a probe could tell."""

    UNKNOWN = ""
    SEEN = "seen"
    """The model read what was drawn on one."""
    COUNTED = "counted"
    """The prompt grew by a picture; the model did not read what was drawn."""
    DROPPED = "dropped"
    """The prompt is as long as without the picture."""
    REFUSED = "refused"
    """The server says that this model takes none."""


class Tools(StrEnum):
    """How a tool call comes back, as far as a probe could tell."""

    UNKNOWN = ""
    PARSED = "parsed"
    """In ``tool_calls``."""
    IN_TEXT = "text"
    """Written in the text."""
    IGNORED = "ignored"
    """A call was asked for and none came."""
    REFUSED = "refused"


_PICTURES_SAID: Mapping[Pictures, str] = {
    Pictures.UNKNOWN: "pictures: not checked, or it could not be told",
    Pictures.SEEN: "pictures reach the model",
    Pictures.COUNTED: "pictures are counted (the model did not read the number on one)",
    Pictures.DROPPED: "pictures are dropped",
    Pictures.REFUSED: "takes no pictures",
}
_TOOLS_SAID: Mapping[Tools, str] = {
    Tools.UNKNOWN: "tool calls: not checked",
    Tools.PARSED: "tool calls are parsed",
    Tools.IN_TEXT: "tool calls come as text",
    Tools.IGNORED: "tools are ignored",
    Tools.REFUSED: "started without tool calls",
}


_LOGPROBS_SAID = {True: "tells how likely tokens were", False: "tells no token's probability"}


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of one model on one server.

    ``refused`` are fields of a request that the server would not take; ``checked`` is the UTC time
    of the probe (ISO 8601), empty before one. ``context`` is the longest prompt in tokens, None
    where the server does not say.
    """

    url: str
    model: str
    kind: Kind = Kind.UNKNOWN
    pictures: Pictures = Pictures.UNKNOWN
    tools: Tools = Tools.UNKNOWN
    usage: bool | None = None
    refused: frozenset[str] = frozenset()
    context: int | None = None
    checked: str = ""
    tools_stay: bool = False
    """Whether a conversation that called tools has to list them, also where none may be called."""
    logprobs: bool | None = None
    """Whether it tells how likely tokens were; None before that was asked."""

    @property
    def lists_closed_tools(self) -> bool:
        """Return whether to list tools that may be called no more: learned, or known of Anthropic.

        Its service refuses a conversation with tool calls in it and no tools.
        """
        return self.tools_stay or self.kind is Kind.ANTHROPIC

    @property
    def server_title(self) -> str:
        """Return what the server is called, for people."""
        return TITLES[self.kind]

    @property
    def said(self) -> str:
        """Return what is known, as one line for people."""
        parts = [self.server_title, _PICTURES_SAID[self.pictures], _TOOLS_SAID[self.tools]]
        if self.logprobs is not None:
            parts.append(_LOGPROBS_SAID[self.logprobs])
        if self.context is not None:
            parts.append(f"at most {self.context} tokens")
        if self.refused:
            parts.append(f"does not take {', '.join(sorted(self.refused))}")
        if self.checked:
            parts.append(f"checked {self.checked[:16].replace('T', ' ')} UTC")
        return "; ".join(parts)

    def without(self, fields: frozenset[str]) -> Profile:
        """Return the profile with more fields that are not taken."""
        return dataclasses.replace(self, refused=self.refused | fields)


def kind_of(url: str, headers: Mapping[str, str], models: Sequence[Mapping[str, Any]]) -> Kind:
    """Recognise a server from its address, its headers and its answer to ``GET /models``.

    Headers have names in lower case. The port is only asked when nothing else tells.
    """
    if kind := _HOSTS.get(host_of(url)):
        return kind
    server = headers.get("server", "").lower()
    if "llama.cpp" in server:
        return Kind.LLAMACPP
    owners = {str(model.get("owned_by", "")).lower() for model in models}
    for owner, kind in _OWNERS.items():
        if owner in owners:
            return kind
    # transformers serve is the one that answers each request with an id of its own.
    if "uvicorn" in server and "x-request-id" in headers:
        return Kind.TRANSFORMERS
    return _kind_of_port(url)


def _kind_of_port(url: str) -> Kind:
    import httpx

    return _PORTS.get(httpx.URL(url).port or 0, Kind.UNKNOWN)


def _key(url: str, model: str) -> str:
    return f"{url} {model}"


def stored_profile(url: str, model: str) -> Profile:
    """Return what was remembered of a model on a server; what cannot be read is unknown."""
    stored = stored_object(_FILE).get(_key(url, model))
    plain = Profile(url, model, kind=_HOSTS.get(host_of(url), Kind.UNKNOWN))
    if not isinstance(stored, dict):
        return plain
    context, usage = stored.get("context"), stored.get("usage")
    refused, logprobs = stored.get("refused"), stored.get("logprobs")
    try:
        return Profile(
            url,
            model,
            kind=Kind(stored.get("kind", "")),
            pictures=Pictures(stored.get("pictures", "")),
            tools=Tools(stored.get("tools", "")),
            usage=usage if isinstance(usage, bool) else None,
            refused=frozenset(
                name
                for name in (refused if isinstance(refused, list) else ())
                if isinstance(name, str)
            ),
            context=context if isinstance(context, int) else None,
            checked=str(stored.get("checked", "")),
            tools_stay=stored.get("tools_stay") is True,
            logprobs=logprobs if isinstance(logprobs, bool) else None,
        )
    except ValueError:
        return plain


def store_profile(profile: Profile) -> None:
    """Remember a profile, the newest last; a failure is logged only."""
    with _storing:
        _store(profile)


def _store(profile: Profile) -> None:
    profiles = stored_object(_FILE)
    profiles.pop(_key(profile.url, profile.model), None)
    profiles[_key(profile.url, profile.model)] = {
        **dataclasses.asdict(profile),
        "refused": sorted(profile.refused),
    }
    newest = dict(list(profiles.items())[-_MOST_PROFILES:])
    try:
        store_object(_FILE, newest)
    except OSError as error:
        logger.warning("what is known of servers is not kept in %s: %s", config_folder(), error)


def forget_profile(url: str, model: str) -> None:
    """Forget what is known of a model on a server, so that the next use probes again."""
    profiles = stored_object(_FILE)
    if profiles.pop(_key(url, model), None) is not None:
        try:
            store_object(_FILE, profiles)
        except OSError as error:
            logger.warning("what is known of servers is not kept in %s: %s", config_folder(), error)
