"""The address of a server of models, and the key that it asks for."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

# The key is removed from a server's answers. A shorter one, such as a placeholder, might be a word of the answer.
_MIN_KEY_CHARACTERS = 8


PRESETS = {
    "vllm": "http://127.0.0.1:8000/v1",
    "sglang": "http://127.0.0.1:30000/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
    "llama-cpp-python": "http://127.0.0.1:8000/v1",
    "transformers": "http://127.0.0.1:8000/v1",
}
"""The usual address of each make of server on this machine, by its name."""


class ServerUnusable(ValueError):
    """Raised for a server's address or key that cannot be used; the message says how to mend it."""

    plain = True


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address, up to and with /v1, and the name of the environment variable with its key; empty without a
    key. Raises ServerUnusable for an address or name that cannot be used, and for an address that holds a secret or
    would send the key unencrypted to another machine.
    """

    url: str
    key_variable: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.username or parts.password or parts.query or parts.fragment:
            # The address is not quoted: it may hold the secret.
            held = "a user or a password" if parts.username or parts.password else "a query or a fragment (? or #)"
            raise ServerUnusable(
                f"the server's address has {held}: take it out, and name the environment variable that holds the key"
            )
        if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_good_port(self.url):
            raise ServerUnusable(f"{self.url!r} is not the address of a server: give one like http://127.0.0.1:8000/v1")
        if self.key_variable and not is_variable_name(self.key_variable):
            # Not quoted either: it may be the key itself, given by mistake.
            raise ServerUnusable(
                "the key variable is not the name of an environment variable: give its name, not the key"
            )
        if self.key_variable and parts.scheme == "http" and not self.is_local:
            raise ServerUnusable(
                f"{self.url} would send the key of {self.key_variable} unencrypted: use https, or name no key variable"
            )

    @property
    def is_local(self) -> bool:
        """Whether the address is of this machine: localhost or a loopback address. Names are not looked up."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def read_key(self) -> str | None:
        """Read the key from the environment variable; None if the server needs none. Raises ServerUnusable if it is
        missing, has fewer than 8 characters, or holds a character that a key cannot have.
        """
        if not self.key_variable:
            return None
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise ServerUnusable(
                f"environment variable {self.key_variable} is empty or not set: set it to the server's key"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ServerUnusable(
                f"environment variable {self.key_variable} holds a character that a key cannot have: correct it"
            )
        if len(key) < _MIN_KEY_CHARACTERS:
            raise ServerUnusable(
                f"environment variable {self.key_variable} holds fewer than {_MIN_KEY_CHARACTERS} characters: "
                "give a longer key, or name no key variable where the server needs none"
            )
        return key


def is_variable_name(name: str) -> bool:
    """Whether a text can be the name of an environment variable: ASCII letters, digits and _, no digit first.

    >>> is_variable_name("OPENAI_API_KEY"), is_variable_name("sk-12345678")
    (True, False)
    """
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None


def _has_good_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
