"""Server addresses, and the hosts that a person has confirmed pixels may go to."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from napari_ctvqa.core.errors import CtvqaError
from napari_ctvqa.io.user_config import config_folder, store_object, stored_object

if TYPE_CHECKING:
    import httpx

_FILE = "confirmed_hosts.json"
_EXAMPLE = "http://localhost:8000/v1"
_ENDINGS = ("/chat/completions", "/completions", "/models")
_PATHS = {"generativelanguage.googleapis.com": "/v1beta/openai"}
HOSTED = ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com")


class AddressError(CtvqaError):
    """An address that names no server."""

    code = "address"


def base_url(text: str) -> str:
    """Return a server's base address without a closing slash: ``http://gpu7:8000/v1``.

    Without a scheme ``http`` is taken, for the known providers always ``https``; without a path
    ``/v1``; an ending such as ``/chat/completions`` is cut.

    Raises
    ------
    AddressError
        For what is no http(s) address, and for one that holds a user name, key or query: those
        would end up in files.
    """
    url = _parsed(text)
    path = url.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    host = host_of_url(url)
    path = path or _PATHS.get(host, "/v1")
    port = f":{url.port}" if url.port is not None else ""
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if host in HOSTED else url.scheme
    return f"{scheme}://{shown}{port}{path}"


def servers_of(text: str) -> tuple[str, ...]:
    """Return the base addresses in a text, blanks or commas between them, each once.

    Raises
    ------
    AddressError
        As ``base_url`` does.
    """
    return tuple(dict.fromkeys(base_url(one) for one in text.replace(",", " ").split()))


def hosts_of(text: str) -> tuple[str, ...]:
    """Return the hosts of the addresses in a text, each once. Raises AddressError."""
    return tuple(dict.fromkeys(host_of(one) for one in servers_of(text)))


def _parsed(text: str) -> httpx.URL:
    import httpx

    given = text.strip()
    if "://" not in given:
        given = f"{'https' if given.split('/')[0] in HOSTED else 'http'}://{given}"
    try:
        url = httpx.URL(given)
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressError(
            f"{text.strip()[:200]!r} is no server address ({error}).", hint=f"Give e.g. {_EXAMPLE}."
        ) from None
    if url.userinfo or url.query or url.fragment:
        # The text itself may hold a key: it is not repeated.
        raise AddressError(
            "The server address holds a user name, a key or a query; a plain address was expected.",
            hint=f"Give e.g. {_EXAMPLE}; a key is read from the environment.",
        )
    if url.scheme not in ("http", "https") or not url.host:
        raise AddressError(
            f"{given[:200]!r} is no server address; http:// or https:// and a host were expected.",
            hint=f"Give e.g. {_EXAMPLE}.",
        )
    if url.port is not None and not 0 < url.port < 65536:
        raise AddressError(
            f"{given[:200]!r} has port {url.port}; 1 to 65535 was expected.",
            hint="Correct the port.",
        )
    return url


def host_of_url(url: httpx.URL) -> str:
    """Return the host as it is connected to, in ASCII, lower case."""
    return url.raw_host.decode("ascii").lower()


def host_of(url: str) -> str:
    """Return the host of an address, as it is connected to. Raises AddressError."""
    return host_of_url(_parsed(url))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine and nothing else.

    Only ``localhost`` and literal loopback addresses count; ``localhost.example.com``, short forms
    such as ``127.1`` and ``0.0.0.0`` are names of other machines as far as we know.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def confirmed() -> tuple[str, ...]:
    """Return the hosts that a person has confirmed, sorted."""
    hosts = stored_object(_FILE).get("hosts")
    if not isinstance(hosts, list):
        return ()
    return tuple(sorted({host for host in hosts if isinstance(host, str)}))


def is_allowed(host: str) -> bool:
    """Return whether pixels may go to this host: it is this machine, or was confirmed."""
    return is_loopback(host) or host.lower() in confirmed()


def confirm(host: str) -> None:
    """Remember that a person allows pixels to go to this host.

    Raises
    ------
    CtvqaError
        When the confirmation cannot be kept.
    """
    _keep({*confirmed(), host.lower()})


def forget(host: str) -> None:
    """Take a confirmation back. Raises CtvqaError when that cannot be kept."""
    _keep(set(confirmed()) - {host.lower()})


def _keep(hosts: set[str]) -> None:
    try:
        store_object(_FILE, {"hosts": sorted(hosts)})
    except OSError as error:
        raise CtvqaError(
            f"Confirmed hosts cannot be kept in {config_folder()} ({error.strerror or error}).",
            hint="Make that folder writable, or name another one in NAPARI_CTVQA_CONFIG_DIR.",
        ) from None
