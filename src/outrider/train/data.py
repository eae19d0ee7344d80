"""The data of a training run: what the target wrote, as ids, in a file that only grows.

NAME.jsonl has one conversation a line:

    {"seed": 17, "prompt": [...], "answer": [...], "ended": true}

seed: what the question was drawn with; prompt is then the question alone, which stands in the frame of the target's
chat template. With a seed of null the prompt is a user's, and whole. ended: whether the answer ended by itself, uncut.
opening, where it is there: so many ids of the answer were drawn, and only what follows is the likeliest.

NAME.json beside it is the recipe: which target wrote it, and how. A file goes on under the same recipe only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.errors import UsageError
from outrider.models.digest import digest
from outrider.models.fingerprint import fingerprint
from outrider.models.spec import ModelFile
from outrider.models.tokenizer import Tokenizer
from outrider.train import files, questions
from outrider.train.questions import Frame

FORMAT = 1
_EXAMPLE = 'give lines such as {"seed": 1, "prompt": [5, 9], "answer": [7], "ended": true}'


@dataclass(frozen=True, slots=True)
class Line:
    """One conversation as it stands in the file."""

    seed: int | None
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    ended: bool
    opening: int = 0

    def json(self) -> str:
        """As it stands there."""
        entry = asdict(self)
        if not self.opening:
            del entry["opening"]
        return json.dumps(entry)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One conversation: the whole prompt [n] with the chat template's own ids, and the target's answer [m], of which
    the first `opening` ids were drawn.
    """

    prompt: npt.NDArray[np.int32]  # a tuple of five million ids would take ten times the memory
    answer: npt.NDArray[np.int32]
    ended: bool
    opening: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a file comes about; the same recipe writes the same lines."""

    target: str
    fingerprint: str  # models.fingerprint, in hex
    tokenizer: str  # models.digest, in hex
    opening: tuple[int, ...]
    closing: tuple[int, ...]
    seed: int  # question i is drawn with seed + i
    prompts: str | None  # digest of the user's prompts, which are answered first
    own: bool  # the target's own questions follow
    temperature: float = questions.TEMPERATURE
    top_p: float = questions.TOP_P
    question_tokens: int = questions.QUESTION_TOKENS
    least_tokens: int = questions.LEAST_TOKENS
    answer_tokens: int = questions.ANSWER_TOKENS
    leads: str = ""  # digest of what leads the questions (train.tasks); "": nothing does
    opening_tokens: int = 0  # of each answer that are drawn; those of line i with seed + i
    format: int = field(default=FORMAT)

    @property
    def frame(self) -> Frame:
        return Frame(self.opening, self.closing)


def sidecar(path: Path) -> Path:
    """Where the recipe of a data file lies."""
    return path.with_suffix(".json")


def recipe_of(path: Path) -> Recipe | None:
    """The recipe beside a data file; None where there is none. Raises UsageError for one that cannot be read."""
    where = sidecar(path)
    try:
        raw: Any = json.loads(where.read_text("utf-8"))
        for name in ("opening", "closing"):
            raw[name] = tuple(raw[name])
        found = Recipe(**raw)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{where} is no recipe of training data ({error}): move it and {path.name} away") from None
    if found.format != FORMAT:
        raise UsageError(f"{where} has format {found.format}, not {FORMAT}: write the data anew")
    return found


class Log:
    """A data file that is written: every line is whole, whatever kills the process.

    Opening it drops a last line that was cut short, and reads the others. One process at a time. Raises UsageError
    where it cannot be written, where it was written under another recipe, and for a damaged line.
    """

    def __init__(self, path: Path, recipe: Recipe, vocab: int) -> None:
        self.path = path
        self.recipe = recipe
        self.seen: set[bytes] = set()  # keys of the prompts
        self.prompts = 0  # lines with a user's prompt, which are the first
        self.answers = 0
        self.tokens = 0  # of the answers
        self.last_seed: int | None = None
        self._stream = _opened(path)
        try:
            if not files.alone(self._stream.fileno()):
                raise UsageError(f"{path} is being written by another process: wait for it, or name another --out")
            if not agree(path, recipe):
                _keep(sidecar(path), recipe)
            self._size = self._repair()
            for line in lines(path, vocab):
                self._count(line)
        except BaseException:
            self.close()
            raise

    def add(self, line: Line) -> None:
        """Writes a line behind the others. Raises UsageError where the disk is full; the file then ends before it."""
        raw = (line.json() + "\n").encode()
        try:
            files.write(self._stream, raw)
        except OSError as error:
            with suppress(OSError):
                self._stream.truncate(self._size)
            raise _unwritten(self.path, error) from None
        self._size += len(raw)
        self._count(line)

    def close(self) -> None:
        """Lets another process write."""
        self._stream.close()

    def _count(self, line: Line) -> None:
        self.seen.add(key(line.prompt))
        self.prompts += line.seed is None
        self.answers += 1
        self.tokens += len(line.answer)
        self.last_seed = line.seed

    def _repair(self) -> int:
        """Cuts a half line off; returns the bytes that are left."""
        raw = self.path.read_bytes()
        size = raw.rfind(b"\n") + 1
        if size < len(raw):
            self._stream.truncate(size)
        return size


def key(prompt: Sequence[int]) -> bytes:
    """What stands for a prompt in a set: a tuple of its ids would take nine times the memory."""
    return np.array(prompt, np.int32).tobytes()


def lines(path: Path, vocab: int) -> Iterator[Line]:
    """The lines of a file; a last one that is not complete (it is being written, or was cut short) is left out.

    Raises UsageError, which names the line, for one that is not as it should be.
    """
    try:
        with open(path, "rb") as stream:
            for number, one in enumerate(stream, 1):
                if one.strip() and one.endswith(b"\n"):
                    yield _line(one, f"{path}, line {number}", vocab)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give files that outrider train wrote") from None


def dialogues(paths: Sequence[Path], file: ModelFile) -> list[Dialogue]:
    """The conversations of these files, whole; of two with the same prompt and opening, the first.

    Raises UsageError where a file is damaged, another target wrote it, or all of them are empty. A file without a
    recipe is taken for this target's own.
    """
    tokenizer = Tokenizer(file.tokenizer)
    found: dict[bytes, Dialogue] = {}
    for path in paths:
        recipe = recipe_of(path)
        if recipe is None:
            around = questions.frame(file.tokenizer, tokenizer)
        else:
            _check_target(path, recipe, fingerprint(file).hex(), digest(tokenizer).hex(), file.spec.name)
            around = recipe.frame
        for line in lines(path, file.spec.vocab):
            prompt = line.prompt if line.seed is None else around.around(line.prompt)
            one = Dialogue(np.array(prompt, np.int32), np.array(line.answer, np.int32), line.ended, line.opening)
            found.setdefault(key((*prompt, *line.answer[: line.opening])), one)
    kept = [one for one in found.values() if len(one.answer)]
    if not kept:
        raise UsageError(f"there are no answers in {', '.join(map(str, paths))}: let the target write some first")
    return kept


def _check_target(path: Path, recipe: Recipe, target: str, tokenizer: str, name: str) -> None:
    for what, wrote, has in (("target", recipe.fingerprint, target), ("tokenizer", recipe.tokenizer, tokenizer)):
        if wrote != has:
            raise UsageError(
                f"{path} was written by {recipe.target} ({what} {wrote[:12]}), and the target is {name} ({has[:12]}): "
                "answers must be the target's own, so give data that it wrote"
            )


def _line(raw: bytes, where: str, vocab: int) -> Line:
    try:
        entry: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error}): {_EXAMPLE}") from None
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is no object: {_EXAMPLE}")
    seed, prompt, answer, ended = (entry.get(name) for name in ("seed", "prompt", "answer", "ended"))
    opening = entry.get("opening", 0)
    if not (seed is None or type(seed) is int) or not isinstance(ended, bool) or type(opening) is not int:
        raise UsageError(
            f"{where} has the seed {seed!r:.40}, ended {ended!r:.40} and opening {opening!r:.40}: {_EXAMPLE}"
        )
    line = Line(seed, _ids(prompt, "prompt", where, vocab), _ids(answer, "answer", where, vocab), ended, opening)
    if not 0 <= opening <= len(line.answer):
        raise UsageError(f"{where} has an opening of {opening} ids and an answer of {len(line.answer)}: {_EXAMPLE}")
    return line


def _ids(found: object, name: str, where: str, vocab: int) -> tuple[int, ...]:
    if not isinstance(found, list) or not all(type(token) is int and 0 <= token < vocab for token in found):
        raise UsageError(f"{where} has no ids in 0..{vocab - 1} as its {name}: {_EXAMPLE}")
    return tuple(found)


def agree(path: Path, recipe: Recipe) -> bool:
    """Whether a file has a recipe. Raises UsageError, which names what differs, where it is another one."""
    known = recipe_of(path)
    if known is None:
        return False
    for name, has in asdict(known).items():
        wanted = getattr(recipe, name)
        if has != wanted:
            raise UsageError(
                f"{path} was written with {name} {_short(has)} and is to go on with {_short(wanted)}: name another "
                "--out, or give what was given then"
            )
    return True


def _keep(path: Path, recipe: Recipe) -> None:
    try:
        path.write_text(json.dumps(asdict(recipe), indent=1) + "\n", "utf-8")
    except OSError as error:
        raise _unwritten(path, error) from None


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def _opened(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "ab", buffering=0)  # unbuffered: what add has written survives a kill
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from None


def _unwritten(path: Path, error: Exception) -> UsageError:
    if isinstance(error, OSError) and error.errno in files.FULL:
        return UsageError(f"no space left for {path}: what is written is kept; free some and give the command again")
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UsageError(f"{path} cannot be written ({why}): name another --out")


def prompts_digest(prompts: Iterable[Sequence[int]]) -> str:
    """What tells one list of prompts from another, in hex."""
    found = hashlib.sha256()
    for prompt in prompts:
        found.update((json.dumps(list(prompt)) + "\n").encode())
    return found.hexdigest()
