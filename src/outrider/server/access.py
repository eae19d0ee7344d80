"""Who may call: keys, and the names that the server is called by."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.errors import UsageError
from outrider.server.problems import FORBIDDEN, UNAUTHORIZED, Problem

KEY_VARIABLE = "OUTRIDER_API_KEY"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHORTEST = 8


def read_keys(file: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of a file, one a line (# begins a comment), or the one of OUTRIDER_API_KEY; none where neither is given.

    Raises UsageError for a file that cannot be read, that everybody may read, or that has no usable key.
    """
    if file is None:
        given = environment.get(KEY_VARIABLE, "").strip()
        if given:
            _check(given, KEY_VARIABLE)
        return (given,) if given else ()
    path = Path(file)
    try:
        if path.is_file() and os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH):
            raise UsageError(f"--api-key-file {file} may be read or written by everybody: chmod 600 {file}")
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no UTF-8 text"
        raise UsageError(f"--api-key-file {file} cannot be read: {reason}") from None
    keys = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not keys:
        raise UsageError(f"--api-key-file {file} has no key; write one on a line")
    for key in keys:
        _check(key, f"--api-key-file {file}")
    return keys


def _check(key: str, where: str) -> None:
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"a key of {where} is too short or has other characters: give {_SHORTEST} or more of ASCII")


class Keys:
    """Compares keys in a time that does not depend on where they differ."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, authorization: str | None) -> str:
        """The name of the key that was given, which tells nothing of it; "" where none is asked for. Raises Problem."""
        if not self._digests:
            return ""
        scheme, _, given = (authorization or "").partition(" ")
        found = _digest(given.strip())
        # All of them, so that the time does not tell which one it was either.
        matches = [hmac.compare_digest(found, digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(matches):
            said = "is missing" if not authorization else "is not one of this server's"
            raise Problem(
                UNAUTHORIZED,
                f"the API key {said}; send the header Authorization: Bearer KEY",
                code="invalid_api_key",
            )
        return found.hex()[:12]


def _digest(key: str) -> bytes:
    return hashlib.sha256(b"outrider" + key.encode("utf-8", "surrogateescape")).digest()


def check_host(host: str | None, allowed: frozenset[str]) -> None:
    """Raises Problem where a server of this machine is called by a name that is not its own.

    A web page may let its own name point here (DNS rebinding); its requests then carry that name.
    """
    if not allowed:
        return
    name = (host or "").strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name not in allowed:
        known = ", ".join(sorted(allowed))
        raise Problem(
            FORBIDDEN, f"the Host header is {host!r:.80}; it may be {known} (--allowed-host NAME adds one)", code="host"
        )
