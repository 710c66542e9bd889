"""Keys of servers: from the environment or the system keyring, and out of every text."""

from __future__ import annotations

import os
from dataclasses import dataclass

from napari_ctvqa.core.errors import CtvqaError

KEY_VARIABLE = "NAPARI_CTVQA_API_KEY"
_PROVIDERS = {
    "api.openai.com": "OPENAI_API_KEY",
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
}
_SERVICE = "napari-ctvqa"
_SECRET_FROM = 8
"""Characters; shorter ones are placeholders such as "EMPTY" or "none", and common words."""
REMOVED = "[key removed]"


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A key and where it comes from; printing it shows only the latter."""

    secret: str
    source: str

    def __repr__(self) -> str:
        return f"Key(from {self.source})"

    def removed_from(self, text: str) -> str:
        """Return the text without the key."""
        if len(self.secret) < _SECRET_FROM:
            return text
        return text.replace(self.secret, REMOVED)


NO_KEY = Key("", "nowhere")


def variable_of(host: str) -> str:
    """Return the environment variable in which a host's key is looked for first."""
    return _PROVIDERS.get(host, KEY_VARIABLE)


def key_of(host: str) -> Key:
    """Return the key for a host; ``NO_KEY`` where there is none.

    Raises
    ------
    CtvqaError
        For a key that cannot be one, naming where it comes from, never the key.
    """
    for variable in dict.fromkeys((variable_of(host), KEY_VARIABLE)):
        if secret := os.environ.get(variable, "").strip():
            return _checked(Key(secret, f"the variable {variable}"))
    if secret := _from_keyring(host).strip():
        return _checked(Key(secret, "the system keyring"))
    return NO_KEY


def _checked(key: Key) -> Key:
    if not key.secret.isascii() or not key.secret.isprintable() or " " in key.secret:
        raise CtvqaError(
            f"The key in {key.source} holds characters that no key has.", hint="Set it again."
        )
    return key


def _from_keyring(host: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return ""
    try:
        return keyring.get_password(_SERVICE, host) or ""
    except KeyringError:
        return ""


def keep_key(host: str, secret: str) -> None:
    """Put a host's key into the system keyring.

    Raises
    ------
    CtvqaError
        Without the package ``keyring``, or when the keyring refuses.
    """
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise CtvqaError(
            "A key can only be kept in the system keyring, and the package keyring is missing.",
            hint=f"pip install keyring, or set {variable_of(host)}.",
        ) from None
    key = _checked(Key(secret.strip(), "this field"))
    try:
        keyring.set_password(_SERVICE, host, key.secret)
    except KeyringError as error:
        raise CtvqaError(
            f"The system keyring refused the key for {host} ({key.removed_from(str(error))}).",
            hint=f"Set {variable_of(host)} instead.",
        ) from None
