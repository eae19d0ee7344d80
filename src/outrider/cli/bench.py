"""`outrider bench`: drafters, and other servers, over one set of questions."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from outrider.bench import figures, questions, report, trials, words
from outrider.bench.contenders import Contender, Local, Settings
from outrider.bench.questions import Question
from outrider.bench.result import PLAIN, Result
from outrider.bench.server import Server
from outrider.cli import checks
from outrider.cli.render import columns, visible
from outrider.cli.sinks import print_json
from outrider.cli.tools import Entrant, Entry, Tools
from outrider.drafters import plugins
from outrider.errors import UsageError

DIFFERS, INTERRUPTED = 1, 130
DEFAULT_DRAFTERS = "none,ngram,auto"
API_KEY = "OUTRIDER_API_KEY"
MOST_ROUNDS = 1000
NONE = "none"  # for --head
TEXT_WIDTH = 110
PAGES = {".md": report.markdown, ".html": report.html}


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `outrider bench`."""

    questions: str | None
    per_group: int
    drafters: str | None
    draft_model: str | None
    store: str | None
    heads: Sequence[str]
    rounds: int
    url: str | None
    api_model: str | None
    model: str | None
    threads: int | None
    temperature: float
    seed: int
    max_tokens: int
    as_json: bool
    report: str | None


@dataclass(frozen=True, slots=True)
class _Started:
    """Who takes part, and what is known of the model and the machine."""

    contenders: Sequence[Contender]
    machine: dict[str, object]
    model: str


def bench(tools: Tools, options: Options) -> int:
    """Measures and prints; returns the exit status: 0, 1 where an answer changed or failed, 130 where interrupted.

    Raises OutriderError before anything is measured: for nonsense, and for a model or server that cannot be had.
    """
    entrants = _check(options)
    chosen = questions.select(questions.load(options.questions), options.per_group)
    started = _start(tools, options, entrants)
    total = len(started.contenders) * len(trials.prompts(chosen)) * options.rounds
    done: list[trials.Trial] = []
    try:
        with _progress(total) as progress:
            for trial in trials.run(started.contenders, chosen, options.rounds):
                done.append(trial)
                progress.advance(f"round {trial.round + 1}, {trial.prompt.question.task}")
    except KeyboardInterrupt:
        pass  # what there is, is told as partial
    return _tell(options, _result(options, started, chosen, done, total))


def _check(options: Options) -> list[Entrant]:
    """The drafters to load, plain decoding first; none at all for a server alone. Raises UsageError."""
    lowest, highest = checks.LOWEST_TEMPERATURE, checks.HIGHEST_TEMPERATURE
    temperature = options.temperature
    for flag, value, allowed, says in (
        ("--per-group", options.per_group, options.per_group >= 1, "1 or more questions of each task"),
        ("--rounds", options.rounds, 1 <= options.rounds <= MOST_ROUNDS, f"1 to {MOST_ROUNDS}"),
        ("--max-tokens", options.max_tokens, options.max_tokens >= 1, "1 or more"),
        ("--seed", options.seed, 0 <= options.seed < 2**64, "a number from 0 to 2**64 - 1"),
        ("--temperature", temperature, temperature == 0 or lowest <= temperature <= highest, "0, or 1e-06 to 100"),
    ):
        if not allowed:
            raise UsageError(f"{flag} is {value}: give {says}")
    if options.threads is not None and not 1 <= options.threads <= checks.MOST_THREADS:
        raise UsageError(f"--threads is {options.threads}: give 1 to {checks.MOST_THREADS}")
    if options.api_model is not None and options.url is None:
        raise UsageError("--api-model names a model of a server: give --url as well")
    _check_report(options.report)
    if options.url is not None and options.drafters is None:
        for flag, given in (
            ("--model", options.model),
            ("--threads", options.threads),
            ("--draft-model", options.draft_model),
            ("--store", options.store),
            ("--head", next(iter(options.heads), None)),
        ):
            if given is not None:
                raise UsageError(f"{flag} is for the drafters beside --url: name them with --drafters")
        return []
    drafters = _drafters(DEFAULT_DRAFTERS if options.drafters is None else options.drafters)
    for complaint in checks.drafter_needs(
        drafters, options.draft_model, options.store, next(iter(options.heads), None)
    ):
        raise UsageError(complaint)
    return _entrants(drafters, list(dict.fromkeys(options.heads)))


def _drafters(given: str) -> list[str]:
    named = [name.strip() for name in given.split(",")]
    for name in named:
        checks.known_drafter("--drafters", name)
    return list(dict.fromkeys([PLAIN, *named]))


def _entrants(drafters: Sequence[str], heads: Sequence[str]) -> list[Entrant]:
    """Each drafter once; one that may have a head once with each, where several are given."""
    if len(heads) < 2:
        head = heads[0] if heads else None
        return [Entrant(name, name, head if name in plugins.WITH_HEAD else None) for name in drafters]
    short = [Path(head).name for head in heads]
    labels = [
        "no head" if head == NONE else name if short.count(name) == 1 else head
        for head, name in zip(heads, short, strict=True)
    ]
    found: list[Entrant] = []
    for name in drafters:
        if name not in plugins.WITH_HEAD:
            found.append(Entrant(name, name))
            continue
        for head, label in zip(heads, labels, strict=True):
            if name == "auto" or head != NONE:
                found.append(Entrant(f"{name}, {label}", name, head))
    return found


def _check_report(name: str | None) -> None:
    """Now, not after minutes of measuring."""
    if name is None:
        return
    path = Path(name)
    if path.suffix not in PAGES:
        raise UsageError(f"--report is {name}: give a name that ends in {' or '.join(PAGES)}")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--report {name} cannot be written: give a file in a directory that exists and is yours")


def _start(tools: Tools, options: Options, entrants: Sequence[Entrant]) -> _Started:
    settings = Settings(options.max_tokens, options.temperature, options.seed)
    contenders: list[Contender] = []
    machine = _machine()
    model = ""
    # The server first: that it is not there is known in a moment, and a model takes longer to load.
    server = None
    if options.url is not None:
        server = Server(options.url, options.api_model, settings, key=os.environ.get(API_KEY))
    if entrants:
        field = tools.field(Entry(options.model, options.threads, entrants, options.draft_model, options.store))
        contenders += [Local(one.name, field.generators[one.name], field.encode, settings) for one in entrants]
        machine |= {"isa": field.isa, "threads": field.threads}
        model = field.model
    if server is not None:
        contenders.append(server)
        model = f"{model}; {server.model} at {options.url}" if model else f"{server.model} at {options.url}"
    return _Started(contenders, machine, model)


def _machine() -> dict[str, object]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _result(
    options: Options, started: _Started, chosen: Sequence[Question], done: Sequence[trials.Trial], total: int
) -> Result:
    names = [contender.name for contender in started.contenders]
    plain = PLAIN if PLAIN in names else None
    return Result(
        rows=figures.rows(done, names, plain, greedy=options.temperature == 0),
        failures=figures.failures(done),
        differences=figures.differences(done, plain) if plain else [],
        machine=started.machine,
        settings={
            "model": started.model,
            "questions": options.questions or "our own",
            "selected": len(chosen),
            "rounds": options.rounds,
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
            "seed": options.seed,
            "answers": len(done),
            "of_answers": total,
        },
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=shlex.join(["outrider", *sys.argv[1:]]),
        version=_version(),
        partial=len(done) < total,
    )


def _version() -> str:
    try:
        return version("outrider")
    except PackageNotFoundError:  # run from a checkout: no reason to lose what was measured
        return "not installed"


def _tell(options: Options, result: Result) -> int:
    if options.as_json:
        print_json(result.data(), sys.stdout)
    elif result.rows:
        rows = [words.cells(row) for row in result.rows]
        print(columns([list(words.HEAD), *rows], words.SIDES))
        for text in filter(None, [*words.definitions(result), words.verdict(result)]):
            print(f"\n{textwrap.fill(text, TEXT_WIDTH)}")
    if options.report is not None:
        page = PAGES[Path(options.report).suffix](result)
        try:
            Path(options.report).write_text(page, "utf-8")
        except OSError as error:
            raise UsageError(f"--report {options.report} cannot be written: {error.strerror}") from None
    sys.stdout.flush()
    for trouble in words.troubles(result):
        print(f"outrider: {visible(trouble)}", file=sys.stderr)
    if result.partial:
        return INTERRUPTED
    return DIFFERS if result.differences or result.failures else 0


class Progress(Protocol):
    """Told about each answer."""

    def advance(self, what: str) -> None: ...


class _Silent:
    def advance(self, what: str) -> None:
        pass


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """A bar on a terminal's standard error, which goes away at the end; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns_ = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    display = Display(
        *columns_, TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True, redirect_stdout=False
    )
    task = display.add_task("warming up", total=total)

    class Bar:
        def advance(self, what: str) -> None:
            display.update(task, advance=1, description=what)

    with display:
        yield Bar()
