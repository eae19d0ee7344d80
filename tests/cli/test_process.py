"""The command line as a process: terminals, Ctrl-C, closed pipes, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.scripted import SKY_TEXT

SCRIPTED = str(Path(__file__).with_name("scripted.py"))
ROOT = str(Path(__file__).parents[2])


def environment(**changes: str) -> dict[str, str]:
    """This process's, without what steers colours."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "OUTRIDER_TRACEBACK"}}
    path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "TERM": "xterm", **changes}


class OnTerminal:
    """A process whose output and errors go to one pseudo-terminal."""

    def __init__(self, scenario: str, *arguments: str, **changes: str) -> None:
        self._screen, inner = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, SCRIPTED, scenario, *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment(**changes),
        )
        os.close(inner)
        self.seen = ""

    def read(self) -> Iterator[str]:
        while True:
            try:
                piece = os.read(self._screen, 4096)
            except OSError:  # the other side is closed
                return
            self.seen += piece.decode()
            yield self.seen

    def to_the_end(self) -> tuple[str, int]:
        for _ in self.read():
            pass
        os.close(self._screen)
        return self.seen.replace("\r\n", "\n"), self.process.wait()


def test_colours_and_summary_on_a_terminal() -> None:
    screen, status = OnTerminal("sky", "run", "hi").to_the_end()
    assert status == 0
    answer, *summary = screen.splitlines()
    assert answer == "The\x1b[32m sky\x1b[0m\x1b[32m is\x1b[0m very\x1b[32m blue\x1b[0m."
    assert len(summary) == 2
    assert "6 tokens at 8.0 tokens/s, after 20 prompt tokens in 0.25 s, ended by stop" in summary[0]
    assert "4 passes, 1.50 tokens per pass; accepted 3 of 5 drafted (60 %), 3 passes saved" in summary[1]
    assert "\x1b[32mgreen\x1b[0m" in summary[1]


def test_forced_tokens_have_a_colour_and_a_legend_on_a_terminal() -> None:
    screen, status = OnTerminal("hero", "run", "hi", "--json-object").to_the_end()
    assert status == 0
    answer, first, second = screen.splitlines()
    assert answer == "\x1b[36mThe\x1b[0m\x1b[36m sky\x1b[0m\x1b[32m is\x1b[0m blue."
    assert "5 tokens" in first
    assert "accepted 3 of 5 drafted (60 %), 2 of them forced by the constraint, 3 passes saved" in second
    assert "\x1b[32mgreen\x1b[0m" in second
    assert "\x1b[36mcyan\x1b[0m\x1b[2m: forced by the constraint" in second


def test_each_sample_has_its_summary_on_a_terminal() -> None:
    screen, status = OnTerminal("sky", "run", "hi", "--n", "2", "--color", "never").to_the_end()
    assert status == 0
    lines = screen.splitlines()
    assert lines[0:2] == ["--- sample 1 of 2 ---", SKY_TEXT]
    assert "ended by stop" in lines[2]
    assert lines[4:6] == ["--- sample 2 of 2 ---", SKY_TEXT]
    assert "ended by length" in lines[6]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"}), (("--color", "never"), {})],
)
def test_no_colours(arguments: tuple[str, ...], changes: dict[str, str]) -> None:
    screen, status = OnTerminal("sky", "run", "hi", *arguments, **changes).to_the_end()
    assert status == 0
    assert "\x1b" not in screen
    assert screen.startswith(f"{SKY_TEXT}\n6 tokens at")


@pytest.mark.parametrize("arguments", [("--color", "never"), ("--explain",), ()])
def test_the_model_cannot_steer_the_terminal(arguments: tuple[str, ...]) -> None:
    screen, _ = OnTerminal("escapes", "run", "hi", *arguments).to_the_end()
    assert "\x1b[2J" not in screen
    assert "[2J" in screen


def test_no_prompt_on_a_terminal_does_not_wait() -> None:
    screen, status = OnTerminal("sky", "run").to_the_end()
    assert status == 2
    assert screen.startswith("outrider: there is no prompt")


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """A shell starts what runs in the background deaf to Ctrl-C, and children inherit that; a handler they do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("arguments", [(), ("--explain",)])
def test_interrupt_keeps_what_there_is(arguments: tuple[str, ...]) -> None:
    terminal = OnTerminal("waits", "run", "hi", *arguments)
    next(seen for seen in terminal.read() if "(waiting)" in seen)
    terminal.process.send_signal(signal.SIGINT)
    screen, status = terminal.to_the_end()
    assert status == 130
    assert "Traceback" not in screen
    assert screen.partition("(waiting)")[2].strip().startswith("interrupted")
    assert screen.rindex("\x1b[0m") > screen.rindex("\x1b[32m")


def test_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPTED, "endless", "run", "hi", "--max-tokens", "9999999"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(4) == b" sky"
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert errors == b""


def test_prompt_through_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTED, "sky", "run", "-"],
        input=b"Why?\r\n",
        capture_output=True,
        env=environment(),
        check=True,
    )
    assert (done.stdout.decode(), done.stderr) == (SKY_TEXT + "\n", b"")


def test_output_that_cannot_show_a_character() -> None:
    command = [sys.executable, SCRIPTED, "escapes", "run", "hi"]
    latin = environment(PYTHONIOENCODING="ascii")
    done = subprocess.run(command, capture_output=True, env=latin, check=True)
    assert done.stdout == b"The\x1b[2J?\n"
    done = subprocess.run([*command, "--json"], capture_output=True, env=latin, check=True)
    assert b'"The\\u001b[2J\\u00e9"' in done.stdout


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from outrider.cli.main import main; main(['run', '--help']); "
        "print(sorted({'numpy', 'rich', 'tokenizers', 'pydantic', 'outrider.engine'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
