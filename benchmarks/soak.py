"""A server under mixed load for a while: good requests, some of which leave or read slowly, and nonsense.

    python benchmarks/soak.py --minutes 30 [--streams 24]

Before, every good request is answered alone; under load its ids must be the same. Behind it all nothing may be left
running, no block held but by kept prefixes, and memory must not have grown since the warm-up. Then the server is killed
and started again, and the seconds until it is ready are told. The exit status is 1 where any of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _asking
import _report
import _servers
from _asking import Place

from outrider import _native
from outrider.errors import OutriderError
from outrider.models import sources

WARM_SHARE = 0.2
GROWTH = 1.05  # of resident memory after the warm-up
PATH = "/v1/chat/completions"
QUESTIONS = (
    "Why is the sky blue?",
    "Name three primary colours, and then name them again.",
    "Write a haiku about rain.",
    "Count from one to twenty in words.",
    "Translate into French: the cat sits on the mat, and the mat is red.",
    "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "power": {"enum": ["fire", "ice"]}},
    "required": ["name", "power"],
    "additionalProperties": False,
}


@dataclass(slots=True)
class Diary:
    """What happened."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    rss_bytes: list[tuple[float, int]] = field(default_factory=list)  # (seconds since the start, bytes)


def good(number: int) -> dict[str, Any]:
    """A request of one kind or another; the same number gives the same one."""
    question = QUESTIONS[number % len(QUESTIONS)]
    messages = [{"role": "system", "content": "You are a patient assistant."}, {"role": "user", "content": question}]
    asked: dict[str, Any] = {"messages": messages, "max_tokens": 24 + 8 * (number % 9), "seed": number, "story": True}
    asked["temperature"] = (0, 0.7, 1.1)[number % 3]
    if number % 4 == 0:
        asked["response_format"] = {"type": "json_schema", "json_schema": {"name": "hero", "schema": SCHEMA}}
    if number % 5 == 0:
        asked["stop"] = ["\n\n", "blue"]
    if number % 7 == 0:
        asked["prediction"] = {"type": "content", "content": question}
    return asked


NONSENSE: tuple[tuple[bytes, int], ...] = (
    (b"{", 400),
    (b"[]", 400),
    (b'{"messages": []}', 400),
    (b'{"messages": [{"role": "user", "content": "hi"}], "temperature": "hot"}', 400),
    (b'{"messages": [{"role": "user", "content": "hi"}], "tempreature": 1}', 400),
    (b'{"messages": [{"role": "user", "content": "' + b"x" * 300_000 + b'"}]}', 400),
    (b'{"messages": "' + b"x" * (5 << 20) + b'"}', 413),
)


def ids(choice: dict[str, Any]) -> list[int]:
    """The token ids that an answer's story tells."""
    return [token["id"] for part in choice["outrider"] for token in part["tokens"] if token["id"] is not None]


async def whole(place: Place, asked: dict[str, Any]) -> list[int]:
    """The ids of an answer. Raises OutriderError where there is none."""
    status, reader, writer = await _asking.request(place, PATH, json.dumps(asked).encode())
    try:
        body = await reader.read()
    finally:
        writer.close()
    if status != 200:
        raise OutriderError(f"status {status}: {body!r:.200}")
    return ids(json.loads(body)["choices"][0])


async def streamed(place: Place, asked: dict[str, Any], chance: random.Random, slow: bool) -> list[int] | None:
    """The ids of a streamed answer; None where the client leaves before its end. Slow: it reads with pauses."""
    leaves_after = None if slow else chance.choice((None, None, 0, 1, 3, 8))
    status, reader, writer = await _asking.request(place, PATH, json.dumps({**asked, "stream": True}).encode())
    found: list[int] = []
    try:
        if status != 200:
            raise OutriderError(f"status {status}: {(await reader.read(200))!r}")
        number = 0
        async for event in _asking.events(reader):
            if leaves_after is not None and number >= leaves_after:
                return None
            number += 1
            found += ids({"outrider": [one["outrider"] for one in event["choices"] if "outrider" in one]})
            if slow:
                await asyncio.sleep(chance.uniform(0, 0.2))
    finally:
        writer.close()
    return found


async def client(place: Place, alone: list[list[int]], end: float, chance: random.Random, diary: Diary) -> None:
    """One of the streams, until the end."""
    while time.monotonic() < end:
        number = chance.randrange(len(alone))
        kind = chance.choices(("whole", "streamed", "slow", "nonsense"), (5, 5, 1, 1))[0]
        try:
            if kind == "nonsense":
                await nonsense(place, chance, diary)
                continue
            asked = good(number)
            found = await (whole(place, asked) if kind == "whole" else streamed(place, asked, chance, kind == "slow"))
        except (OutriderError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            diary.faults.append(f"{kind} request {number} failed: {error!r:.200}")
            continue
        diary.counts["left" if found is None else kind] += 1
        if found is not None and found != alone[number]:
            diary.faults.append(f"{kind} request {number} has other ids than alone")


async def nonsense(place: Place, chance: random.Random, diary: Diary) -> None:
    """A request that has to be refused."""
    body, wanted = chance.choice(NONSENSE)
    try:
        status, _, writer = await _asking.request(place, PATH, body)
    except (ConnectionError, IndexError):
        # The server may close before it has read all of a body that is too large.
        if wanted != 413:
            raise
        diary.counts["closed"] += 1
        return
    writer.close()
    diary.counts[f"refused {status}"] += 1
    if status not in (wanted, 429):
        diary.faults.append(f"{body[:60]!r} got {status} instead of {wanted}")


async def watch(process: subprocess.Popen[bytes], start: float, end: float, diary: Diary) -> None:
    """Resident memory, every few seconds."""
    while time.monotonic() < end:
        diary.rss_bytes.append((time.monotonic() - start, resident_bytes(process.pid)))
        await asyncio.sleep(2)


def resident_bytes(pid: int) -> int:
    """What a process holds in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OutriderError(f"process {pid} is gone")


def metrics(place: Place) -> dict[str, float]:
    """The samples without labels."""
    with urllib.request.urlopen(f"http://{place.host}:{place.port}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    pairs = [line.split(" ") for line in lines if line.startswith("outrider_") and "{" not in line]
    return {name: float(value) for name, value in pairs}


async def soak(place: Place, process: subprocess.Popen[bytes], arguments: argparse.Namespace) -> Diary:
    """Answers alone first, then all at once."""
    diary = Diary()
    alone = [await whole(place, good(number)) for number in range(arguments.kinds)]
    start = time.monotonic()
    end = start + 60 * arguments.minutes
    streams = [
        client(place, alone, end, random.Random(f"{arguments.seed}/{number}"), diary)
        for number in range(arguments.streams)
    ]
    await asyncio.gather(watch(process, start, end, diary), *streams)
    await asyncio.sleep(3)
    return diary


def judge(diary: Diary, left: dict[str, float], minutes: float) -> list[str]:
    """What did not hold."""
    faults = list(diary.faults)
    names = ("requests_running", "requests_waiting", "sequences", "sequences_paused", "http_requests_in_flight")
    faults += [f"{name} is {left[f'outrider_{name}']:g} after the end" for name in names if left[f"outrider_{name}"]]
    used, cached = left["outrider_kv_blocks_used"], left["outrider_kv_blocks_cached"]
    # A block that two kept prefixes share is one; so cached alone never exceeds used, and nothing else may hold any.
    if cached > used or used > left["outrider_kv_blocks_total"]:
        faults.append(f"{used:g} blocks are used, {cached:g} by kept prefixes alone")
    warm = [rss for at, rss in diary.rss_bytes if WARM_SHARE <= at / (60 * minutes) < 2 * WARM_SHARE]
    late = [rss for at, rss in diary.rss_bytes if at / (60 * minutes) >= 1 - WARM_SHARE]
    if warm and late and max(late) > GROWTH * max(warm):
        faults.append(f"memory grew from {max(warm) >> 20} to {max(late) >> 20} MiB after the warm-up")
    return faults


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--kinds", type=int, default=60, help="different good requests; default 60")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kv-bytes", default="96M", help="small, so that sequences pause; default 96M")
    parser.add_argument("--model", help="a source as for `outrider run --model`; default: the default model")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Soak, judge, kill and restart; returns the exit status."""
    arguments = parsed()
    model = sources.resolve(arguments.model)
    port = _servers.free_port()
    threads = arguments.threads or _native.usable_cores()
    command = _servers.outrider(model, port, threads, 16, "--kv-bytes", arguments.kv_bytes)
    with _servers.running(command, port) as (place, process):
        diary = asyncio.run(soak(place, process, arguments))
        left = metrics(place)
        process.send_signal(signal.SIGKILL)
        process.wait()
        again = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ready_s = _servers.wait_ready(again, port)
        finally:
            again.kill()
            again.wait()
    faults = judge(diary, left, arguments.minutes)
    told = {
        "minutes": arguments.minutes,
        "requests": dict(sorted(diary.counts.items())),
        "tokens": left["outrider_tokens_total"],
        "preemptions": left["outrider_preemptions_total"],
        "rss_mib": [max((rss for _, rss in diary.rss_bytes), default=0) >> 20, diary.rss_bytes[-1][1] >> 20],
        "ready_again_s": round(ready_s, 2),
        "faults": faults[:20],
    }
    if arguments.json:
        print(json.dumps({"machine": _report.machine(), **told}))
    else:
        for name, value in told.items():
            print(f"{name:14}{value}")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except OutriderError as error:
        raise SystemExit(f"soak.py: {error}") from None
