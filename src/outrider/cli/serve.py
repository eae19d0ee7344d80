"""`outrider serve`: a model behind an address, until a signal."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.cli.tools import Load, Serve, Tools
from outrider.errors import UsageError

if TYPE_CHECKING:
    from outrider.server.house import House, Settings

EXTRA = "outrider serve needs packages that are not installed ({name}); install outrider[serve]"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_ANY = frozenset({"0.0.0.0", "::", ""})
MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider serve`."""

    load: Load
    host: str
    port: int
    api_key_file: str | None
    insecure: bool
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    name: str | None
    kv_bytes: int | None
    slots: int
    queue: int
    max_prompt: int | None
    max_tokens: int | None
    max_body_bytes: int
    timeout_s: float
    drain_s: float
    temperature: float
    scope_by_user: bool
    log_prompts: bool

    def __post_init__(self) -> None:
        """Raises UsageError that names the flag."""
        if not 0 <= self.port <= MOST_PORT:
            raise UsageError(f"--port is {self.port}; give 1 to {MOST_PORT}, or 0 for any that is free")
        for flag, value in (
            ("--slots", self.slots),
            ("--queue", self.queue),
            ("--max-prompt", self.max_prompt),
            ("--max-tokens", self.max_tokens),
            ("--max-body", self.max_body_bytes),
            ("--kv-bytes", self.kv_bytes),
        ):
            if value is not None and value < 1:
                raise UsageError(f"{flag} is {value}; give 1 or more")
        for flag, seconds in (("--timeout", self.timeout_s), ("--drain", self.drain_s)):
            if not 0 < seconds < 1e6:
                raise UsageError(f"{flag} is {seconds:g}; give seconds, above 0")
        if not 0 <= self.temperature <= 100:
            raise UsageError(f"--temperature is {self.temperature:g}; give 0 to 100")
        for origin in self.cors_origins:
            if origin != "*" and not re.fullmatch(r"https?://[^/\s]+", origin):
                raise UsageError(f"--cors-origin is {origin!r}; give an address such as https://example.org, or *")


def size(flag: str, given: str | None) -> int | None:
    """Bytes, such as 512M or 2G; None where nothing was given. Raises UsageError."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([kmg]?)(i?b)?", given.strip().lower())
    if found is None:
        raise UsageError(f"{flag} is {given!r}; give bytes, such as 512M or 2G")
    return int(found[1]) * _UNITS[found[2]]


def serve(tools: Tools, options: Options) -> int:
    """Serves until a signal; returns the exit status. Raises UsageError before a model is loaded where it can."""
    try:
        from outrider.server import access, running
        from outrider.server.app import make
        from outrider.server.logs import Log
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("outrider"):
            raise
        raise UsageError(EXTRA.format(name=error.name)) from None
    keys = access.read_keys(options.api_key_file, os.environ)
    loopback = options.host.lower() in access.LOOPBACK
    if not loopback and not keys and not options.insecure:
        raise UsageError(
            f"--host {options.host} can be reached from other machines, and there is no key: give --api-key-file, set "
            f"{access.KEY_VARIABLE}, or say --insecure"
        )
    settings = _settings(options, keys, access.LOOPBACK if loopback and not keys else frozenset())
    opened = running.listen(options.host, options.port)
    try:
        house = _house(tools, options)
        log = Log()
        address = running.address(opened, "127.0.0.1" if options.host in _ANY else options.host)

        def ready() -> None:
            log.write("ready", {"address": address, "model": house.model, "fingerprint": house.fingerprint})
            print(_welcome(address, house, bool(keys)), flush=True)

        running.serve(make(house, settings, log), house.live, opened, settings.limits, log, ready)
    finally:
        opened.close()
    return 0


def _settings(options: Options, keys: tuple[str, ...], own_names: frozenset[str]) -> Settings:
    from outrider.server.house import Limits, Settings

    limits = Limits(
        body_bytes=options.max_body_bytes,
        prompt_tok=options.max_prompt,
        answer_tok=options.max_tokens,
        in_flight=options.slots + options.queue,
        request_s=options.timeout_s,
        drain_s=options.drain_s,
    )
    # Where a key is asked for, or others may call, the name that we are called by says nothing.
    hosts = own_names | {name.lower() for name in options.allowed_hosts} if own_names else frozenset()
    return Settings(
        keys=keys,
        hosts=hosts,
        origins=options.cors_origins,
        limits=limits,
        temperature=options.temperature,
        scope_by_user=options.scope_by_user,
        log_prompts=options.log_prompts,
    )


def _house(tools: Tools, options: Options) -> House:
    from outrider.server.house import House, fingerprint

    load = options.load
    served = tools.serve(Serve(load, options.kv_bytes, options.slots, options.queue))
    name = options.name or served.name
    mark = fingerprint(name, served.digest, load.rule)
    return House(served.live, served.face, name, mark, load.drafter, load.rule, int(time.time()))


def _welcome(address: str, house: House, keyed: bool) -> str:
    key = " with your key" if keyed else ""
    lines = [f"{house.model} is served at {address}", f"  the page: {address}/", f"  the API:  {address}/v1{key}"]
    if sys.stdout.isatty():
        lines.append("Ctrl-C lets running answers end and stops; a second one stops at once.")
    return "\n".join(lines)
