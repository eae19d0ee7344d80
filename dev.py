#!/usr/bin/env python3
"""Everything a clone needs, with the standard library alone: python3 dev.py VERB [ARGUMENTS]

  outrider ARGS...  set up, then run the command, e.g. python3 dev.py outrider run "Why is the sky blue?"
  test [ARGS...]    set up, then run all checks: ruff, ruff format, mypy, pytest, the native tests with sanitizers
                    (ARGS go to pytest, and the sanitizers rest)
  check             the same without pytest
  format            let ruff fix and format the code
  bench [NAME ...]  run benchmarks/NAME.py with the rest as its arguments; without a name, list them
  sanitize          build the native part with sanitizers in .venv-sanitize and run its tests there
  python ARGS...    run the environment's Python
  setup [--oracle]  only set up; --oracle adds torch and transformers for the comparison tests

The environment lives in .venv beside this file. A change of pyproject.toml or native/ rebuilds it; edits of Python
files need nothing. With the set-up done, a verb starts at once.
"""

import hashlib
import json
import os
import sys

# Before any definition, so that an old interpreter reads this sentence and not a traceback.
if sys.version_info < (3, 11):  # noqa: UP036
    have = sys.version.split()[0]
    sys.exit(f"dev.py: Python 3.11 or newer is needed, this is {have}: start it with one, such as python3.11 dev.py")

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

# subprocess, tomllib and their like are imported where a set-up needs them: without one, a start stays near 10 ms.

ROOT = os.path.dirname(os.path.abspath(__file__))
STAMP = "outrider-setup.json"
# What the build needs beyond pyproject's build-system: pip brings it into the environment, so that a rebuild finds
# the same tools at the same place, compiles only what changed, and needs no network.
BUILD_TOOLS = ("cmake>=3.26,<5", "ninja>=1.11")
TAIL_LINES = 25


class Environment(NamedTuple):
    """One virtual environment of the project: its folder and what its build is told."""

    name: str
    settings: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return os.path.join(ROOT, self.name)

    @property
    def python(self) -> str:
        return os.path.join(self.folder, "bin", "python")

    def tool(self, name: str) -> str:
        return os.path.join(self.folder, "bin", name)


MAIN = Environment(".venv")
# Warnings are errors here and not in the build that users get, whose compiler may know newer ones.
SANITIZE = Environment(
    ".venv-sanitize",
    ("cmake.define.OUTRIDER_SANITIZE=ON", "cmake.define.OUTRIDER_WERROR=ON", "build-dir=build/sanitize"),
)


class Trouble(Exception):
    """Something the person at the keyboard can mend; printed as it is, exit status 2."""


def base_key() -> str:
    """Names what an environment is bound to: this interpreter and this place."""
    return f"{sys.version.split()[0]} {os.path.realpath(sys.base_prefix)} {ROOT}"


def fingerprint(environment: Environment) -> str:
    """Digest of everything that a build depends on: this file's settings, pyproject.toml and native/."""
    digest = hashlib.sha256(repr((BUILD_TOOLS, environment.settings)).encode())
    paths = [os.path.join(ROOT, "pyproject.toml")]
    for folder, folders, names in os.walk(os.path.join(ROOT, "native")):
        folders.sort()
        paths += [os.path.join(folder, name) for name in sorted(names) if not name.startswith(".")]
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        digest.update(f"\0{os.path.relpath(path, ROOT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def read_stamp(environment: Environment) -> dict[str, object] | None:
    """What the last set-up noted; None when there was none. An unreadable note counts as an unfinished set-up."""
    try:
        with open(os.path.join(environment.folder, STAMP), encoding="utf-8") as file:
            stamp = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(environment: Environment, stamp: dict[str, object]) -> None:
    """Notes, in one atomic step, how far the set-up has come."""
    path = os.path.join(environment.folder, STAMP)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(stamp, file)
    os.replace(path + ".new", path)


def known_extras(stamp: dict[str, object] | None) -> set[str]:
    """The extras that a stamp names."""
    extras = (stamp or {}).get("extras", [])
    return set(extras) if isinstance(extras, list) else set()


def is_ready(environment: Environment, extras: set[str]) -> bool:
    """Whether the environment is complete, belongs to this place and code, and has the extras."""
    stamp = read_stamp(environment)
    return (
        stamp is not None
        and stamp.get("base") == base_key()
        and os.path.exists(environment.python)
        and stamp.get("installed") == fingerprint(environment)
        and extras <= known_extras(stamp)
    )


def say(text: str) -> None:
    """One line to the person; standard output belongs to the command that runs."""
    print(f"dev.py: {text}", file=sys.stderr, flush=True)


@contextmanager
def locked() -> Iterator[int]:
    """Holds the one lock of this clone; yields its descriptor, which children inherit and so keep while they work."""
    import fcntl

    lock = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of this clone is at work; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def step(title: str, command: list[str], log: str, lock: int) -> None:
    """Runs one command quietly into the log; raises Trouble with its last lines when it fails."""
    import functools
    import subprocess
    import time

    say(f"{title} ...")
    start = time.monotonic()
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONHOME", "PIP_USER"}}
    with open(log, "w", encoding="utf-8") as file:
        run = functools.partial(subprocess.run, command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        done = run(stdout=file, stderr=subprocess.STDOUT, pass_fds=[lock])
    if done.returncode:
        with open(log, encoding="utf-8", errors="replace") as file:
            tail = "".join(file.readlines()[-TAIL_LINES:]).rstrip()
        raise Trouble(f"{title} failed (exit status {done.returncode}); its last lines:\n\n{tail}\n\nAll of it: {log}")
    say(f"  done in {time.monotonic() - start:.0f} s")


def create(environment: Environment, lock: int) -> None:
    """Makes a fresh virtual environment in a folder that is ours or new."""
    import shutil

    folder = environment.folder
    if os.path.lexists(folder):
        if read_stamp(environment) is None:
            raise Trouble(f"{folder} exists and is not dev.py's own: move it away or delete it, then try again")
        shutil.rmtree(folder)
    os.mkdir(folder)
    write_stamp(environment, {})
    log = os.path.join(folder, "setup.log")
    interpreter = getattr(sys, "_base_executable", sys.executable)  # ours may lie in the folder just deleted
    try:
        step(f"making {environment.name}", [interpreter, "-m", "venv", folder], log, lock)
    except Trouble as trouble:
        raise Trouble(
            f"{trouble}\n\nPython could not make a virtual environment: its venv module is missing or incomplete "
            "(on Debian and Ubuntu: apt install python3-venv)"
        ) from None
    write_stamp(environment, {"base": base_key()})


def requirements(extras: set[str]) -> list[str]:
    """What pip has to install before the project itself: build tools, dependencies, and those of the extras."""
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        data = tomllib.load(file)
    wanted = [*data["build-system"]["requires"], *BUILD_TOOLS, *data["project"]["dependencies"]]
    for extra in sorted(extras):
        wanted += data["project"]["optional-dependencies"][extra]
    return wanted


def require_compiler() -> None:
    """Raises Trouble when no C++ compiler is to be seen."""
    import shutil

    chosen = os.environ.get("CXX", "").split()
    if not any(shutil.which(name) for name in (chosen[:1] or ["c++", "g++", "clang++"])):
        what = f"CXX names {chosen[0]}, which is not there" if chosen else "no C++ compiler was found"
        raise Trouble(f"{what}: install one with C++20 (on Debian and Ubuntu: apt install g++), or set CXX to yours")


def ensure(environment: Environment, extras: set[str]) -> None:
    """Brings the environment up to date, or leaves it marked as unfinished. Raises Trouble."""
    if is_ready(environment, extras):
        return
    with locked() as lock:
        if is_ready(environment, extras):  # whoever held the lock may have done it
            return
        require_compiler()
        known = known_extras(read_stamp(environment))
        if (read_stamp(environment) or {}).get("base") != base_key() or not os.path.exists(environment.python):
            create(environment, lock)
        # Until the end the note lacks "installed", and names only extras that were there before.
        write_stamp(environment, {"base": base_key(), "extras": sorted(known)})
        install(environment, extras | known, lock)


def install(environment: Environment, extras: set[str], lock: int) -> None:
    """Installs what the project needs, then the project, and notes that it is complete."""
    goal = fingerprint(environment)
    log = os.path.join(environment.folder, "setup.log")
    pip = [environment.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    step(f"installing {', '.join(['dependencies', *sorted(extras)])}", [*pip, *requirements(extras)], log, lock)
    settings = [f"--config-settings={setting}" for setting in environment.settings]
    build = [*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", *settings, "--editable", ROOT]
    step("building outrider's native part (a minute or so the first time)", build, log, lock)
    write_stamp(environment, {"base": base_key(), "extras": sorted(extras), "installed": goal})


def become(command: list[str]) -> int:
    """Turns this process into the command, so that signals and the exit status are the command's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def run_all(commands: list[list[str]], environment: dict[str, str] | None = None) -> int:
    """Runs every command from the root, even after one failed; 0 only when all of them gave 0."""
    import subprocess

    failed = []
    for command in commands:
        title = " ".join([os.path.basename(command[0]), *command[1:]])
        say(title)
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(title)
    if failed:
        say(f"FAILED: {'; '.join(failed)}")
    return 1 if failed else 0


def verb_outrider(arguments: list[str]) -> int:
    ensure(MAIN, {"serve"} if arguments[:1] == ["serve"] else set())
    return become([MAIN.python, "-P", "-m", "outrider", *arguments])


def verb_python(arguments: list[str]) -> int:
    ensure(MAIN, {"test"})
    return become([MAIN.python, *arguments])


def verb_setup(arguments: list[str]) -> int:
    unknown = [argument for argument in arguments if argument != "--oracle"]
    if unknown:
        raise Trouble(f"setup knows only --oracle, not {unknown[0]!r}")
    ensure(MAIN, {"test", "oracle"} if arguments else {"test"})
    say(f"ready: {MAIN.folder}")
    return 0


def checks() -> list[list[str]]:
    """The checks that need no run of the code."""
    ruff = MAIN.tool("ruff")
    return [[ruff, "check"], [ruff, "format", "--check"], [MAIN.python, "-m", "mypy"]]


def verb_check(arguments: list[str]) -> int:
    refuse(arguments, "check")
    ensure(MAIN, {"test"})
    return run_all(checks())


def suites(arguments: list[str]) -> list[list[str]]:
    """pytest with these arguments; without, once for what runs side by side and once for what takes all cores."""
    pytest, alone = [MAIN.python, "-m", "pytest"], [f"tests/{name}" for name in ("native", "model", "oracle")]
    side_by_side = [*pytest, "-n", "auto", "--dist", "loadfile", "tests", *(f"--ignore={name}" for name in alone)]
    return [[*pytest, *arguments]] if arguments else [side_by_side, [*pytest, *alone]]


def verb_test(arguments: list[str]) -> int:
    ensure(MAIN, {"test"})
    # Tests never download: without the default model a good part of them would skip.
    fetch = [MAIN.python, "-c", "from outrider.models import sources; print(sources.resolve())"]
    status = run_all([*checks(), fetch, *suites(arguments)])
    # Somebody who asks for some tests does not want to wait for the native ones with sanitizers.
    return status if arguments else verb_sanitize(["tests/native", "-m", "not slow"]) or status


def verb_format(arguments: list[str]) -> int:
    refuse(arguments, "format")
    ensure(MAIN, {"test"})
    ruff = MAIN.tool("ruff")
    return run_all([[ruff, "check", "--fix"], [ruff, "format"]])


def verb_bench(arguments: list[str]) -> int:
    folder = os.path.join(ROOT, "benchmarks")
    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("_"))
    if not arguments:
        print("\n".join(["python3 dev.py bench NAME [ARGUMENTS], where NAME is one of:", *(f"  {n}" for n in names)]))
        return 0
    if arguments[0] not in names:
        raise Trouble(f"there is no benchmark {arguments[0]!r}; there are: {', '.join(names)}")
    ensure(MAIN, set())
    return become([MAIN.python, os.path.join(folder, arguments[0] + ".py"), *arguments[1:]])


def sanitizer_libraries() -> str:
    """What has to come before Python, which is not built with the sanitizer. Raises Trouble where there is none."""
    import subprocess

    compiler = (os.environ.get("CXX", "").split() or ["c++"])[0]
    libraries = []
    # the C++ library too, because the sanitizer looks for the function that throws when it starts
    for name in ("libasan.so", "libstdc++.so"):
        found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        libraries.append(found.stdout.strip())
    if not os.path.isabs(libraries[0]):
        raise Trouble(f"{compiler} has no address sanitizer library (on Debian and Ubuntu: apt install g++)")
    return " ".join(libraries)


def verb_sanitize(arguments: list[str]) -> int:
    require_compiler()
    libraries = sanitizer_libraries()
    ensure(SANITIZE, {"test"})
    environment = {
        **os.environ,
        "LD_PRELOAD": libraries,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own leftovers at exit would drown ours
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
    return run_all([[SANITIZE.python, "-m", "pytest", *(arguments or ["tests/native"])]], environment)


def refuse(arguments: list[str], verb: str) -> None:
    """Raises Trouble for arguments of a verb that takes none."""
    if arguments:
        raise Trouble(f"{verb} takes no arguments, not {' '.join(arguments)!r}")


VERBS = {
    "outrider": verb_outrider,
    "test": verb_test,
    "check": verb_check,
    "format": verb_format,
    "bench": verb_bench,
    "sanitize": verb_sanitize,
    "python": verb_python,
    "setup": verb_setup,
}


def main(arguments: list[str]) -> int:
    """Runs one verb; returns the exit status."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(__doc__.strip())
        return 0
    if not sys.platform.startswith("linux"):
        raise Trouble("only Linux (or WSL on Windows) is supported")
    if arguments[0] not in VERBS:
        raise Trouble(f"unknown verb {arguments[0]!r}; the verbs are: {', '.join(VERBS)}")
    return VERBS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Trouble as trouble:
        say(str(trouble))
        sys.exit(2)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
