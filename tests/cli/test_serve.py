"""`outrider serve` as a process: the address, what is refused before, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.test_process import environment

from outrider.cli.serve import size
from outrider.errors import UsageError

SERVED = str(Path(__file__).parents[1] / "server" / "served.py")
CHAT = {"messages": [{"role": "user", "content": "hi"}], "seed": 1}


@contextmanager
def process(scenario: str, *arguments: str, **changes: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, once it is ready."""
    command = [sys.executable, SERVED, scenario, "serve", "--port", "0", *arguments]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**changes)
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        found = re.fullmatch(r"\w+ is served at (http://\S+)\n", line)
        assert found is not None, (line, running.stderr and running.stderr.read())
        yield running, found[1]
    finally:
        running.kill()
        running.communicate()


def ended(running: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    """Exit status, and the log."""
    _, log = running.communicate(timeout=30)
    return running.returncode, [json.loads(line) for line in log.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_a_signal_ends_it(number: signal.Signals) -> None:
    with process("quick") as (running, address):
        assert httpx.get(f"{address}/health").json() == {"status": "ready"}
        assert httpx.post(f"{address}/v1/chat/completions", json={**CHAT, "max_tokens": 3}).status_code == 200
        running.send_signal(number)
        status, log = ended(running)
    assert status == 0
    events = [line["event"] for line in log]
    assert events[0] == "ready"
    assert log[0]["address"] == address
    assert events[-2:] == ["draining", "stopped"]
    assert "request" in events


def test_running_answers_end_before_the_process_does() -> None:
    found: list[httpx.Response] = []

    with process("slow") as (running, address), httpx.Client(timeout=30) as client:
        begun = threading.Event()

        def ask() -> None:
            body = {**CHAT, "max_tokens": 15, "stream": True}
            with client.stream("POST", f"{address}/v1/chat/completions", json=body) as response:
                for _ in response.iter_lines():
                    begun.set()
                found.append(response)

        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(20)
        running.send_signal(signal.SIGTERM)
        while (seen := httpx.get(f"{address}/health")).status_code == 200:
            pass
        assert seen.json() == {"status": "draining"}
        assert httpx.post(f"{address}/v1/chat/completions", json=CHAT).status_code == 503
        asking.join(30)
        status, log = ended(running)
    assert status == 0
    assert found[0].status_code == 200
    done = [line for line in log if line.get("completion_tokens")]
    assert [line["outcome"] for line in done] == ["done"]


def test_a_second_signal_ends_it_at_once() -> None:
    with process("slow", "--drain", "60") as (running, address):
        body = {**CHAT, "stream": True}
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=30) as response:
            next(response.iter_lines())
            running.send_signal(signal.SIGTERM)
            while httpx.get(f"{address}/health").status_code == 200:
                pass
            running.send_signal(signal.SIGTERM)
            assert running.wait(10) == 128 + signal.SIGTERM


def test_answers_that_do_not_end_in_time_are_cut_off() -> None:
    with process("slow", "--drain", "0.2") as (running, address), httpx.Client(timeout=30) as client:
        with client.stream("POST", f"{address}/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            next(response.iter_lines())
            running.send_signal(signal.SIGTERM)
            response.close()
        status, log = ended(running)
    assert status == 0
    assert log[-1]["event"] == "stopped"


def refusal(*arguments: str, **changes: str) -> str:
    """The one sentence that a start ends with."""
    done = subprocess.run(
        [sys.executable, SERVED, "quick", "serve", *arguments],
        capture_output=True,
        text=True,
        env=environment(**changes),
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port} of 127.0.0.1 cannot be used (Address already in use)" in refusal("--port", port)


def test_other_machines_need_a_key() -> None:
    said = refusal("--host", "0.0.0.0", "--port", "0")
    assert "--api-key-file" in said
    assert "--insecure" in said
    with process("quick", "--host", "0.0.0.0", OUTRIDER_API_KEY="correct-horse") as (_, address):
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}/v1/models").status_code == 401
        headers = {"Authorization": "Bearer correct-horse", "Host": "any.example"}
        assert httpx.get(f"{address}/v1/models", headers=headers).status_code == 200


def test_a_key_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("correct-horse\n")
    os.chmod(file, 0o600)
    with process("quick", "--api-key-file", str(file), "--name", "mine", "--max-tokens", "7") as (_, address):
        headers = {"Authorization": "Bearer correct-horse"}
        assert httpx.get(f"{address}/v1/models", headers=headers).json()["data"][0]["id"] == "mine"
        found = httpx.post(f"{address}/v1/chat/completions", json=CHAT, headers=headers).json()
        assert found["usage"]["completion_tokens"] <= 7


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "70000"], "--port is 70000"),
        (["--slots", "0"], "--slots is 0"),
        (["--kv-bytes", "much"], "--kv-bytes is 'much'"),
        (["--max-body", "0"], "--max-body is 0"),
        (["--timeout", "0"], "--timeout is 0"),
        (["--cors-origin", "example.org"], "--cors-origin is 'example.org'"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
        (["--api-key-file", "absent"], "--api-key-file absent"),
    ],
)
def test_nonsense_is_refused_before_a_model_is_loaded(arguments: list[str], complaint: str) -> None:
    assert complaint in refusal(*arguments)


def test_sizes() -> None:
    assert [size("--kv-bytes", text) for text in ("17", "4k", "512M", "2G", "1 GiB", None)] == [
        17,
        4096,
        512 << 20,
        2 << 30,
        1 << 30,
        None,
    ]
    with pytest.raises(UsageError, match="--kv-bytes"):
        size("--kv-bytes", "-1")
