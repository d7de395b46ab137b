"""Tokens: what a client proves with who it is, where it is kept, and what is known of it elsewhere.

It knows how a token and its digest are written. It must never show one: messages name the file, or nothing.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Names the file with the token, for the client library and for the command; a token itself is in no variable, and on no
# command line, where others could read it.
VARIABLE: Final = "GOVERNOR_TOKEN_FILE"
# The metadata of a call that carries it.
KEY: Final = "authorization"

# By this, scanners for secrets that were published know one of ours.
_MARK: Final = "gov_"
_BYTES: Final = 32
# Whoever makes tokens by himself makes them as long: there is one SHA-256 between a digest and a short word.
_LEAST: Final = 32
_MOST: Final = 4096
_TOKEN: Final = re.compile(r"[!-~]+")


class TokenError(ValueError):
    """A token that is none, or that cannot be had. It says why without showing it."""


def new() -> str:
    """A token that nobody can guess."""
    return _MARK + secrets.token_urlsafe(_BYTES)


def digest(token: str) -> str:
    """What the config has of it."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def checked(text: str) -> str:
    """A token as it is sent: without white space around it. Raises `TokenError`."""
    token = text.strip()
    if not token:
        raise TokenError("there is nothing in it")
    if len(token) > _MOST or not _TOKEN.fullmatch(token):
        raise TokenError(f"expected one word of at most {_MOST} printable ASCII characters")
    return token


def strong(text: str) -> str:
    """The same for a token whose digest is to stand in a config. Raises `TokenError`."""
    token = checked(text)
    if len(token) < _LEAST:
        raise TokenError(f"expected at least {_LEAST} random characters, since others can read its digest")
    return token


def read(path: str | os.PathLike[str]) -> str:
    """The token in a file. Raises `TokenError`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST + 64)
    except OSError as error:
        raise TokenError(f"{os.fspath(path)}: {error.strerror or error}") from error
    try:
        return checked(data.decode())
    except UnicodeDecodeError:
        raise TokenError(f"{os.fspath(path)}: it is no text") from None
    except TokenError as error:
        raise TokenError(f"{os.fspath(path)}: {error}") from None


def of_environment(environ: Mapping[str, str]) -> str:
    """The token in the file that the environment names; empty when it names none. Raises `TokenError`."""
    path = environ.get(VARIABLE)
    if not path:
        return ""
    try:
        return read(path)
    except TokenError as error:
        raise TokenError(f"{VARIABLE}: {error}") from None


def header(token: str) -> tuple[str, str]:
    """What a call carries."""
    return KEY, f"Bearer {token}"
