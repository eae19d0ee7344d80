"""What surrounds a pass: Python threads, a forked process, the floating-point mode, memory after failures."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.native import models
from tests.native.conftest import Maker

from outrider import _native
from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.errors import ModelFileError
from outrider.testing.gguf_maker import tiny_llama

X86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="knows only this processor's mode word"
)
OWN_MEMORY = pytest.mark.skipif(
    not Path("/proc/self/statm").exists() or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="needs Linux, and the address space for itself: the address sanitizer takes it",
)
FORK = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.native import models
from outrider.backends.native import NativeBackend
from outrider.models import gguf

backend = NativeBackend(gguf.read(Path(sys.argv[1])), threads=3)
tokens = models.ids(40, backend.vocab)
before = models.fresh(backend, tokens)
read, write = os.pipe()
child = os.fork()
if child == 0:
    same = models.fresh(backend, tokens) == before and models.fresh(backend, tokens) == before
    os.write(write, b"same" if same else b"other")
    os._exit(0)
assert models.fresh(backend, tokens) == before
print(os.read(read, 10).decode(), os.waitpid(child, 0)[1], models.fresh(backend, tokens) == before)
"""

MEMORY = """
import resource, sys
from pathlib import Path

sys.path.insert(0, sys.argv[2])
from tests.native import models
from outrider.backends.base import Extend, Want
from outrider.backends.native import NativeBackend
from outrider.errors import BackendError, UsageError
from outrider.models import gguf

file = gguf.read(Path(sys.argv[1]))
backend = NativeBackend(file, threads=2)
tokens, seq, other = models.ids(40, backend.vocab), backend.open(), backend.open()
before = models.fresh(backend, [*tokens, 1])
models.read_chunks(backend, seq, tokens, [40])
items = [Extend(s, [1] * 60000, None, [Want.NONE] * 60000) for s in (seq, other)]
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
failures = 0
rooms = range(2, 200, 6)  # megabytes: the pass fails at one allocation after the other
for room in rooms:
    resource.setrlimit(resource.RLIMIT_AS, (used + room * 2**20, resource.RLIM_INFINITY))
    try:
        backend.extend(items)
        break
    except BackendError as error:
        assert "memory" in str(error), error
        failures += 1
    assert (backend.length(seq), backend.length(other)) == (40, 0)
    try:
        backend.commit([(seq, (0,))])
        print("rows that were never computed can be committed")
    except UsageError:
        pass
    assert models.read(backend, seq, [1]) == before[0][-1:]
print(failures == len(rooms))
"""


def together(*calls: Callable[[], None]) -> None:
    """Runs the calls in threads of their own; raises what one of them raised."""
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_python_threads_share_a_backend(plain: NativeBackend) -> None:
    prompts = [models.ids(80, plain.vocab, seed=seed) for seed in range(4)]
    expected = [models.fresh(plain, prompt) for prompt in prompts]

    def answer(number: int) -> None:
        for _ in range(5):
            seq = plain.open()
            assert models.read_chunks(plain, seq, prompts[number], [1, 30, 2, 5]) == expected[number][0]
            assert plain.export_cache(seq) == expected[number][1]
            plain.close(seq)

    together(*(partial(answer, number) for number in range(4)))


def test_python_threads_draw_from_the_same_scores(plain: NativeBackend) -> None:
    seq = plain.open()
    scores = plain.extend([Extend(seq, models.ids(30, plain.vocab), None, [Want.TOKEN] * 30)])
    expected = [scores.token(0, row) for row in range(30)]
    again = plain.extend([Extend(seq, models.ids(30, plain.vocab), None, [Want.TOKEN] * 30)])

    def ask() -> None:
        assert [again.token(0, row) for row in range(30)] == expected

    together(ask, ask, ask)
    plain.close(seq)


def test_backends_with_other_numbers_of_threads_take_turns(model: Maker) -> None:
    """One pool serves them all: a thread that one region does not need must not miss or repeat the next."""
    backends = [NativeBackend(model("plain"), threads=threads) for threads in (1, 2, 3, 5)]
    tokens = models.ids(6, backends[0].vocab)
    expected = models.fresh(backends[0], tokens)

    def answer(backend: NativeBackend) -> None:
        for _ in range(60):
            assert models.fresh(backend, tokens) == expected

    together(*(partial(answer, backend) for backend in backends))


def script(text: str, model: Path) -> str:
    """Runs a program in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", text, os.fspath(model), str(Path(__file__).parents[2])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_workers_that_a_pass_does_not_need_sleep_through_it(model: Maker) -> None:
    """After a pass of many threads, those of few wake nobody else: each wake would take a core from who computes."""
    many, few = (NativeBackend(model("plain"), threads=threads) for threads in (9, 2))
    models.fresh(many, [1, 2, 3])
    models.fresh(few, [1, 2, 3])
    before = _settled(switches)
    assert len(before) >= 9
    for _ in range(30):
        models.fresh(few, [1, 2, 3])
    after = switches()
    awake = [task for task, count in before.items() if after.get(task) != count]
    assert len(awake) <= 2  # this thread and the one beside it


def switches() -> dict[str, str]:
    """How often each thread of this process went to sleep or was put off its core, by its number."""
    found = {}
    for status in Path("/proc/self/task").glob("*/status"):
        lines = status.read_text().splitlines()
        found[status.parent.name] = " ".join(line.split()[1] for line in lines if "ctxt_switches" in line)
    return found


def _settled(read: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What is read once it stays the same for a while, but for this thread's own."""
    own = str(threading.get_native_id())
    last = read()
    while True:
        time.sleep(0.1)
        now = read()
        if {**now, own: ""} == {**last, own: ""}:
            return now
        last = now


def test_a_forked_child_computes(model: Maker) -> None:
    assert script(FORK, model("plain").path).split() == ["same", "0", "True"]


@OWN_MEMORY
def test_running_out_of_memory_changes_nothing(tmp_path: Path) -> None:
    assert script(MEMORY, tiny_llama(tmp_path / "long.gguf", context=100_000)) == "True"


@contextmanager
def control_word(change: int) -> Iterator[Callable[[], int]]:
    """Sets bits of this thread's SSE control word; yields its reader. fenv_t holds the word at byte 28."""
    libm = ctypes.CDLL("libm.so.6")

    def read() -> int:
        current = ctypes.create_string_buffer(32)
        libm.fegetenv(current)
        return int.from_bytes(current.raw[28:32], "little") & ~0x3F  # without the flags of past exceptions

    saved = ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    word = int.from_bytes(saved.raw[28:32], "little") | change
    changed = ctypes.create_string_buffer(saved.raw[:28] + word.to_bytes(4, "little"), 32)
    libm.fesetenv(changed)
    try:
        yield read
    finally:
        libm.fesetenv(saved)


@X86
@pytest.mark.parametrize("mode", [0x2000, 0x4000, 0x6000, 0x8040], ids=["down", "up", "toward zero", "flush"])
def test_the_floating_point_mode_of_the_caller_does_not_matter(model: Maker, mode: int) -> None:
    file = model("mixed")
    tokens = models.ids(260, file.spec.vocab)
    expected = models.fresh(NativeBackend(file, threads=2), tokens)
    with control_word(mode) as read:
        before = read()
        assert before & mode == mode
        found = models.fresh(NativeBackend(file, threads=2), tokens)
        assert read() == before, "the caller's mode is not given back"
    assert found == expected


def address_space() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


@OWN_MEMORY
def test_a_failed_load_gives_its_memory_back(model: Maker, tmp_path: Path) -> None:
    file = model("floats")
    path = tmp_path / "short.gguf"
    path.write_bytes(file.path.read_bytes()[:-64])
    short = dataclasses.replace(file, path=path)
    size = NativeBackend(file, threads=1).weight_bytes

    def fail() -> None:
        with pytest.raises(ModelFileError):
            NativeBackend(short, threads=1)

    for _ in range(5):
        fail()
    before = address_space()
    for _ in range(100):
        fail()
    assert address_space() - before < 20 * size


def test_cores_are_counted() -> None:
    assert 1 <= _native.usable_cores() <= (os.cpu_count() or 1)
