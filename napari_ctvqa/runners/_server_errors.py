"""What a server says went wrong, as a kind, a sentence and what to do next."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from napari_ctvqa.core.events import Failed, FailureKind
from napari_ctvqa.runners._chat_body import OPTIONAL
from napari_ctvqa.runners._chat_odds import FIELDS
from napari_ctvqa.runners._exchange import ElsewhereError, Head
from napari_ctvqa.runners.server_keys import variable_of
from napari_ctvqa.runners.server_profile import Kind

_PROXIES_SAY = (401, 403, 413, 429, 502, 503, 504)
"""Statuses that come as a web page from the proxy before a model server."""
DETAIL_CHARACTERS = 4000
"""Of a server's own text that is kept with a failure."""
_LOCATION_CHARACTERS = 200
LONGEST_WAIT_S = 120.0
_WAIT_S, _LEAST_WAIT_S = 5.0, 0.1
"""How long to wait where a server does not say, and at least."""
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


@dataclass(frozen=True, slots=True)
class Request:
    """What a sentence about a failed request names."""

    url: str
    host: str
    model: str
    kind: Kind = Kind.UNKNOWN
    pictures: int = 0

    @property
    def server(self) -> str:
        """Return the server as a sentence names it."""
        return f"The server at {self.url}"


def server_text(body: bytes) -> str:
    """Return a server's error text verbatim, out of its JSON where it is wrapped in one."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text[:DETAIL_CHARACTERS]
    return (text_of_error(value) or text)[:DETAIL_CHARACTERS]


def text_of_error(value: Any) -> str:
    """Return the message in an error object; empty when there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return text_of_error(value[0]) if len(value) == 1 else json.dumps(value)
    if not isinstance(value, Mapping):
        return ""
    if "loc" in value:  # a validation error: where it is matters as much as what
        return json.dumps(value)
    for key in ("error", "message", "detail"):
        if inner := value.get(key):
            return text_of_error(inner) or json.dumps(inner)
    return ""


def is_html(body: bytes, content_type: str) -> bool:
    """Return whether a server sent a web page."""
    start = body[:200].lstrip().lower()
    return "text/html" in content_type or start.startswith((b"<!doctype", b"<html"))


def _rule(kind: FailureKind, *alternatives: str) -> tuple[FailureKind, re.Pattern[str]]:
    return kind, re.compile("|".join(alternatives), re.IGNORECASE)


# In this order: the first that fits. Texts of vLLM, SGLang, transformers, Ollama, llama.cpp,
# LM Studio and the providers.
_RULES = (
    _rule(
        FailureKind.OUT_OF_MEMORY,
        r"out of memory",
        r"OutOfMemoryError",
        r"failed to allocate",
        r"requires more system memory",
    ),
    _rule(FailureKind.DEVICE, r"device-side assert", r"CUDA error", r"illegal memory access"),
    _rule(
        FailureKind.TOO_MANY_PICTURES,
        r"at most \d+ (image|picture)",
        r"too many (image|picture)",
        r"(image|picture)s? (count|number) exceed",
        r"exceeds? the (maximum )?(number|limit) of images",
    ),
    _rule(
        FailureKind.CONTEXT_TOO_LONG,
        r"maximum context",
        r"context (length|window|size)",
        r"context_length_exceeded",
        r"exceeds? the available context",
        r"prompt is too long",
        r"(input|prompt|request).{0,40}(too long|longer than)",
        r"max_model_len",
        r"input token count.{0,40}exceeds",
    ),
    _rule(
        FailureKind.PICTURES_DROPPED,
        r"not a multimodal model",
        r"not multimodal",
        r"(image|vision|picture)s? (input |content )?(is|are) not supported",
        r"(does|do) not support (image|vision|picture|multimodal)",
        r"mmproj",
        r"missing data required for image input",
        r"unknown part type: image_url",
    ),
    _rule(
        FailureKind.NO_SUCH_MODEL,
        r"model .{0,200}(does not exist|not found|not available|is not loaded|unknown)",
        r"(no such|unknown|invalid) model",
        r"model_not_found",
        r"Server is pinned to",
        r"not a valid model identifier",
        r"not a local folder and is not a valid",
    ),
    _rule(FailureKind.LOADING, r"loading model", r"model is (still )?loading", r"is starting up"),
)
_TOOLS_REFUSED = re.compile(
    r"enable-auto-tool-choice|tool[- _]call[- _]parser|--jinja|(does|do) not support tools|"
    r"tools? (is|are) not supported",
    re.IGNORECASE,
)
_TLS_WANTED = re.compile(
    r"HTTP request to an HTTPS server|plain HTTP request was sent", re.IGNORECASE
)


_TOOLS_MISSED = tuple(
    re.compile(shape, re.IGNORECASE)
    for shape in (
        r"tool[_ ]?use|tool[_ ]?result|tool[_ ]calls?|(role|message)s?\W{1,3}tool\b|tool messages?",
        r"\b(must|expects?|requires?|required|needs?|needed|missing|should|without)\b",
        r"\btools\b|\btool_?config\b",
    )
)
"""All of them stand in what a server says that wants the tools listed: calls, a wish, the tools."""


def misses_tools(status: int, text: str, sent: Mapping[str, Any]) -> bool:
    """Return whether a server wants the tools listed that the conversation has called."""
    said = all(shape.search(text) for shape in _TOOLS_MISSED)
    return status in (400, 422) and "tools" not in sent and said


def kind_of_text(text: str) -> FailureKind | None:
    """Return what kind of failure a server's text speaks of, None when it does not tell."""
    return next((kind for kind, pattern in _RULES if pattern.search(text)), None)


def refused_fields(status: int, text: str, sent: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields we sent, could do without, and that the server's text names as refused."""
    if status not in (400, 422) or kind_of_text(text) is not None or _TOOLS_REFUSED.search(text):
        return frozenset()
    if "logprobs" in sent and "logprobs" in text:  # "…logprobs of 20, greater than max allowed: 5"
        return frozenset(FIELDS) & set(sent)
    return frozenset(name for name in OPTIONAL & set(sent) if _names_field(text, name))


def _names_field(text: str, name: str) -> bool:
    """Return whether a text names a field; one that is also a word has to stand as a name."""
    if "_" in name:
        pattern = rf"(?<!\w){name}(?!\w)"
    else:
        pattern = rf"['\"`]{name}['\"`]|(?:parameter|field|argument)s?:? {name}(?!\w)"
    return re.search(pattern, text) is not None


def asked_to_wait(head: Head) -> float | None:
    """Return after how many seconds a busy server wants to be asked again; None for no such wish.

    Too many requests (HTTP 429) are a wish without a time, too. What is longer than a person
    would wait for is none.
    """
    if head.status not in (429, 503):
        return None
    seconds = _retry_after_s(head.headers)
    if seconds is None:
        return _WAIT_S if head.status == 429 else None
    return max(seconds, _LEAST_WAIT_S) if seconds <= LONGEST_WAIT_S else None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` names, as a number or a date; None for neither."""
    said = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(said):
        return float(said)
    try:
        return (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):  # TypeError: a date that names no time zone
        return None


def failure_of_answer(
    request: Request, status: int, body: bytes, headers: Mapping[str, str]
) -> Failed:
    """Return the failure that an HTTP answer other than 200 stands for.

    ``headers`` have names in lower case.
    """
    text, content_type = server_text(body), headers.get("content-type", "")
    if _TLS_WANTED.search(text):
        return wrong_scheme(request, text)
    if 300 <= status < 400:
        return _redirected(request, headers.get("location", ""), text)
    if is_html(body, content_type) and status not in _PROXIES_SAY:
        return not_a_server(request, "a web page", text)
    if status in (401, 403):
        return _auth(request, status, text)
    if _TOOLS_REFUSED.search(text):
        return _no_tools(request, text)
    kind = kind_of_text(text)
    if kind is not None:
        return failure_of_kind(request, kind, text)
    failed = _failure_of_status(request, status, text)
    seconds = _retry_after_s(headers)
    if status not in (429, 503) or seconds is None:
        return failed
    hint = f"It wants to be asked again in {seconds:.0f} s. {failed.hint}"
    return replace(failed, hint=hint, wait_s=max(0.0, seconds))


def _failure_of_status(request: Request, status: int, text: str) -> Failed:
    server = request.server
    known = {
        404: (
            FailureKind.NOT_A_SERVER,
            f"{server} has no chat/completions below this address (HTTP 404).",
            "Most servers want an address that ends in /v1; check it, and the model's name.",
        ),
        405: (
            FailureKind.NOT_A_SERVER,
            f"{server} takes no questions at this address (HTTP 405).",
            "Most servers want an address that ends in /v1.",
        ),
        413: (
            FailureKind.TOO_MANY_PICTURES,
            f"{server} refuses so large a request ({request.pictures} pictures).",
            "Send fewer or smaller slices, or raise the size limit of the proxy before it.",
        ),
        429: (
            FailureKind.LOADING,
            f"{server} asks to wait: too many requests, or the quota is used up.",
            "Try again later, or look at the account's limits.",
        ),
        502: (
            FailureKind.UNREACHABLE,
            f"A proxy answers at {request.url}, the server behind it does not (HTTP 502).",
            "Check that the model server runs, or use its own address.",
        ),
        503: (FailureKind.LOADING, *_sentence(request, FailureKind.LOADING)),
        504: (
            FailureKind.TIMEOUT,
            f"The proxy at {request.url} gave up waiting for the server behind it (HTTP 504).",
            "Raise the proxy's time limit, send fewer slices, or use the server's own address.",
        ),
    }
    if status in known:
        return Failed(*known[status], text)
    if status >= 500:
        message = f"{server} failed with an internal error (HTTP {status})."
        hint = "Look at the server's log; try fewer pictures, or again."
        return Failed(FailureKind.SERVER, message, hint, text)
    message = f"{server} refused the request (HTTP {status})."
    return Failed(FailureKind.SERVER, message, "Its own words stand below.", text)


def failure_of_kind(request: Request, kind: FailureKind, text: str, partial: str = "") -> Failed:
    """Return the failure of a kind with its own sentence."""
    return Failed(kind, *_sentence(request, kind), text, partial)


def _sentence(request: Request, kind: FailureKind) -> tuple[str, str]:
    message, hint = _SENTENCES.get(kind, _SENTENCES[FailureKind.SERVER])
    names = {
        "server": request.server,
        "model": request.model,
        "pictures": request.pictures,
        "flag": _picture_flag(request),
    }
    return message.format(**names), hint.format(**names)


def _picture_flag(request: Request) -> str:
    """Return how a server is told to take so many pictures."""
    limit = f"'{json.dumps({'image': request.pictures})}'"
    if request.kind is Kind.SGLANG:
        return f"--limit-mm-data-per-request {limit}"
    if request.kind in (Kind.VLLM, Kind.UNKNOWN):
        return f"--limit-mm-per-prompt {limit}"
    return "a higher limit of pictures"


_SENTENCES: Mapping[FailureKind, tuple[str, str]] = {
    FailureKind.OUT_OF_MEMORY: (
        "{server} ran out of memory on this request.",
        "Send fewer or smaller slices, or serve a smaller model or one with 8-bit weights.",
    ),
    FailureKind.DEVICE: (
        "{server} met an error of its GPU.",
        "Restart the server: after such an error its answers cannot be trusted.",
    ),
    FailureKind.TOO_MANY_PICTURES: (
        "{server} takes fewer than the {pictures} pictures of this request.",
        "Start it with {flag}, or send fewer slices.",
    ),
    FailureKind.CONTEXT_TOO_LONG: (
        "The request is longer than {model} on this server can take.",
        "Send fewer or smaller slices, ask for a shorter answer, or start the server with a "
        "longer context.",
    ),
    FailureKind.PICTURES_DROPPED: (
        "{model} takes no pictures on this server, so it cannot see the CT.",
        "Choose a vision-language model, or start the server with its vision part (llama.cpp: "
        "--mmproj).",
    ),
    FailureKind.NO_SUCH_MODEL: (
        "{server} has no model named {model}.",
        "Choose one that it lists; the name has to be exact.",
    ),
    FailureKind.LOADING: (
        "{server} is up but not ready: the model is loading, or the server is overloaded.",
        "Wait a little and run again.",
    ),
    FailureKind.SERVER: (
        "{server} reported an error.",
        "Its own words stand below; look at the server's log.",
    ),
}


def _auth(request: Request, status: int, text: str) -> Failed:
    refused = "wants a key" if status == 401 else "does not allow this (HTTP 403)"
    return Failed(
        FailureKind.AUTH,
        f"{request.server} {refused}, or the key is wrong.",
        f"Set {variable_of(request.host)}, or keep a key for {request.host} in the system keyring.",
        text,
    )


def _no_tools(request: Request, text: str) -> Failed:
    flags = {
        Kind.LLAMACPP: "--jinja",
        Kind.SGLANG: "--tool-call-parser (qwen25 for Qwen-VL)",
        Kind.OLLAMA: "a model whose template has tools",
    }
    default = "--enable-auto-tool-choice --tool-call-parser (hermes for Qwen-VL)"
    return Failed(
        FailureKind.UNSUPPORTED_FIELD,
        f"{request.server} was started without tool calls for {request.model}.",
        f"Start it with {flags.get(request.kind, default)}, or ask without an agent.",
        text,
    )


def not_a_server(request: Request, what: str, text: str) -> Failed:
    """Return the failure of an address where something else answers."""
    return Failed(
        FailureKind.NOT_A_SERVER,
        f"At {request.url} there is no model server: it answered with {what}.",
        "Check host, port and path; most servers want an address that ends in /v1.",
        text[:DETAIL_CHARACTERS],
    )


def _redirected(request: Request, location: str, text: str) -> Failed:
    """Return the failure of an address that leads elsewhere: pixels do not follow by themselves."""
    secure = f"https{request.url.removeprefix('http')}"
    if request.url.startswith("http:") and location.startswith(secure):
        return wrong_scheme(request, f"It leads to {location}")
    failed = not_a_server(request, "a redirection, which is not followed", text)
    shown = "".join(c for c in location if c.isprintable())[:_LOCATION_CHARACTERS]
    if not shown:
        return failed
    hint = f"It leads to {shown} : give that address if it is the right one. {failed.hint}"
    return replace(failed, hint=hint)


def not_confirmed(host: str) -> Failed:
    """Return the failure of a host that nobody has confirmed yet."""
    return Failed(
        FailureKind.NOT_CONFIRMED,
        f"Pictures of the CT would leave this machine for {host}, which was not confirmed yet.",
        f"Confirm {host} once; nothing has been sent.",
    )


def wrong_scheme(request: Request, text: str) -> Failed:
    """Return the failure of http where https is spoken, or the other way round."""
    secure = request.url.startswith("https:")
    other = ("http:" if secure else "https:") + request.url.partition(":")[2]
    spoken = "plain http, not https" if secure else "https, not plain http"
    return Failed(
        FailureKind.WRONG_SCHEME,
        f"The server at {request.url} speaks {spoken}.",
        f"Use {other}.",
        text[:DETAIL_CHARACTERS],
    )


def not_connected(request: Request, seconds: float) -> Failed:
    """Return the failure of a host that neither takes nor refuses a connection."""
    return Failed(
        FailureKind.UNREACHABLE,
        f"No connection to {request.url} came about within {seconds:.0f} seconds.",
        "Check the host's name, the network (VPN), and that the server runs.",
    )


def failure_without_answer(request: Request, error: Exception | None) -> Failed:
    """Return the failure of a request that got no answer at all."""
    if isinstance(error, ElsewhereError):
        return replace(not_confirmed(str(error)), detail=f"{request.url} led there.")
    name = type(error).__name__
    text = str(error or "")[:DETAIL_CHARACTERS]
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    connected = name not in ("ConnectError", "ConnectTimeout", "ProxyError", "ImportError")
    if _is_no_tls(tls) or (connected and request.url.startswith("http:") and _talks_tls(request)):
        return wrong_scheme(request, text)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return Failed(
            FailureKind.UNREACHABLE,
            f"The certificate of {request.host} is not trusted by this machine.",
            "Name your organisation's certificates in SSL_CERT_FILE; nothing was sent.",
            text,
        )
    if name == "ConnectTimeout":
        return Failed(
            FailureKind.UNREACHABLE,
            f"Nothing answers at {request.url} within 5 seconds.",
            "Check host and port, the network (VPN), and that the server runs.",
            text,
        )
    if name == "ImportError":
        return Failed(
            FailureKind.MISSING_LIBRARY,
            "A proxy that the environment names needs one more package.",
            'pip install "httpx[socks]", or unset ALL_PROXY.',
            text,
        )
    if not connected:
        return Failed(
            FailureKind.UNREACHABLE,
            f"No server is reachable at {request.url}.",
            "Check host and port, and that the server runs; while it loads a model it may not "
            "listen yet.",
            text,
        )
    return Failed(
        FailureKind.BROKEN_STREAM,
        f"{request.server} closed the connection without an answer.",
        "Look at the server's log: it may have crashed on this request. Then run again.",
        text,
    )


def _is_no_tls(error: ssl.SSLError | None) -> bool:
    reasons = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
    text = str(error).upper().replace(" ", "_")
    return error is not None and any(reason in text for reason in reasons)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _talks_tls(request: Request) -> bool:
    """Return whether a port takes a TLS greeting; asked when plain http got no answer."""
    import httpx

    address = httpx.URL(request.url)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent and nothing believed: only a greeting
    try:
        with (
            socket.create_connection((address.host, address.port or 80), timeout=2) as plain,
            context.wrap_socket(plain, server_hostname=address.host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error).upper()  # refused, but in the language of TLS
    except (OSError, ValueError):
        return False
