"""What goes in and what comes out of a generator. No logic.

Ids are vocabulary ids of the target; times are seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Origin(StrEnum):
    """Where a token of the answer came from."""

    ACCEPTED = "accepted"  # guessed by the drafter and kept
    FORCED = "forced"  # drafted because the constraint leaves no other text, and kept
    RECOVERED = "recovered"  # the target's own, after a guess was rejected
    BONUS = "bonus"  # the target's own, after every guess (or an empty draft) was kept


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"  # end of text, a stop string or id, or the end of the constraint's grammar
    LENGTH = "length"  # max_tokens, or the context is full
    STUCK = "stuck"  # the constraint and the allowed and banned ids together left no token


class LogprobsMode(StrEnum):
    """Of which law log-probabilities tell."""

    RAW = "raw"  # the model's own, before anything else
    PROCESSED = "processed"  # the one that the token is drawn from


class ConstraintKind(StrEnum):
    """What a constraint's text is."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    GRAMMAR = "grammar"  # Lark, in llguidance's dialect


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the answer's text must be; it ends where the constraint ends."""

    kind: ConstraintKind
    text: str
    after: str | None = None  # free text first: the constraint holds from behind this marker on


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a row of logits becomes the law of the next token, and with which noise it is drawn.

    The defaults change nothing: the arg-max of the model's own logits. What acts acts in the order below: penalties,
    bias, ids, temperature, top_k, top_p, min_p, typical_p (docs/sampling.md; core.sampling has the exact definitions).
    temperature 0 is the arg-max whatever top_k, top_p, min_p and typical_p say.
    """

    temperature: float = 0.0
    seed: int = 0
    sample: int = 0
    repetition_penalty: float = 1.0  # of ids in prompt and answer: positive logits are divided by it, others multiplied
    frequency_penalty: float = 0.0  # taken off an id's logit once for each time it stands in the answer
    presence_penalty: float = 0.0  # taken off an id's logit if it stands in the answer
    logit_bias: tuple[tuple[int, float], ...] = ()  # (id, what is added)
    allowed_token_ids: tuple[int, ...] | None = None  # None: all
    banned_token_ids: tuple[int, ...] = ()
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    typical_p: float = 1.0  # 1: off


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to answer; n samples of it are answers (request, sample) 0 to n - 1.

    Sample i is what a request of its own with sampling.sample + i would get.
    """

    prompt: Sequence[int]
    max_tokens: int = 256
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()  # end the answer as an end of text does, and are no part of it
    min_tokens: int = 0  # no end of text, stop id or stop string before
    n: int = 1
    logprobs: int | None = None  # how many alternatives to tell with each token's own; None: nothing
    logprobs_mode: LogprobsMode = LogprobsMode.RAW
    prompt_logprobs: int | None = None  # the same for the prompt's tokens, always of the model's own law
    constraint: Constraint | None = None
    speculate: bool = True  # False: plain decoding, whatever drafts for the others
    max_draft: int | None = None  # nodes that may be drafted for it in a pass; None: as many as the policy likes
    drafters: tuple[str, ...] | None = None  # names of those that may draft for it; None: all that there are
    prediction: tuple[int, ...] = ()  # ids that the answer may repeat, in part and in order
    scope: str = ""  # tenant: caches and memories are shared only within one


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token's log-probability where it stands, and the likeliest tokens there: (id, logprob), best first.

    Natural logarithms; -inf where a token was impossible. Equal ones are in the order of their ids.
    """

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost; the lists are by draft position (depth), first position first.

    drafted_per_position[i] counts passes that verified a node at depth i, accepted_per_position[i] those that kept one;
    tokens cut off at the end of an answer are counted nowhere. forced: how many of the accepted tokens were drafted
    because the constraint left no other text.
    """

    prompt_tokens: int
    completion_tokens: int
    passes: int  # target passes that decided a token, the end of text included; prompt-only chunks are not among them
    plain_passes: int  # what the same answer would have taken without speculation
    drafted: int
    accepted: int
    forced: int
    drafted_per_position: tuple[int, ...]
    accepted_per_position: tuple[int, ...]
    tokens_per_pass: float
    prefill_s: float
    draft_s: float
    target_s: float
    decode_s: float
    tokens_per_s: float
    cached_tokens: int = 0  # of the prompt, that a kept prefix saved


@dataclass(frozen=True, slots=True)
class Pass:
    """The story of one pass, for people who want to see it: what was drafted, what was kept, what the target wanted."""

    position: int  # absolute position of the first token that this pass decided
    drafted: tuple[int, ...]
    parents: tuple[int, ...]
    path: tuple[int, ...]  # accepted nodes, before anything was trimmed
    token: int  # the target's own
    seconds: float
    forced: int = 0  # the first so many drafted nodes are text that the constraint leaves no choice about
    drafters: tuple[str, ...] = ()  # who guessed each drafted node; empty where it is not known


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens that one step added to one answer, and the text that became certain with them."""

    request: int  # index into the requests
    text: str
    token_ids: tuple[int, ...]
    origins: tuple[Origin, ...]
    story: Pass | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None  # with the last chunk of an answer
    sample: int = 0  # which of the request's n answers
    logprobs: tuple[Logprob, ...] | None = None  # one for each id, if asked for
    # With the first chunk of an answer, if asked for: one for each prompt id, None for the first of them.
    prompt_logprobs: tuple[Logprob | None, ...] | None = None
    # Who guessed each token, None for the target's own; empty where it is not known.
    drafters: tuple[str | None, ...] = ()


class Generator(Protocol):
    """Whatever answers requests: our engine, another engine, a server. Chunks of several answers may interleave."""

    def generate(self, requests: Sequence[Request]) -> Iterator[Chunk]: ...


class FailureKind(StrEnum):
    """Who is to blame for a failed request, in the words that a server needs."""

    USAGE = "usage"
    OVERLOAD = "overload"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that ended by an error after it was accepted; nothing more comes of any of its samples."""

    request: int  # as in Chunk; 0 from a Live
    message: str  # one sentence for the caller
    kind: FailureKind


class LiveState(StrEnum):
    """What a Live does with new requests."""

    READY = "ready"  # takes them
    DRAINING = "draining"  # refuses them and finishes those it has
    CLOSED = "closed"  # abandoned everything


@dataclass(frozen=True, slots=True)
class Drafted:
    """What one drafter guessed, and what of it was kept; first position first.

    A position counts for the drafter that guessed a node there, so that the sums over drafters of what was drafted may
    be more than there were passes.
    """

    name: str
    drafted: int
    accepted: int
    drafted_by_position: tuple[int, ...]
    accepted_by_position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of a Live at one moment; counts are since its start unless another time is named.

    A block is backends.base.Blocks' unit of memory for keys and values; all are 0 where the backend does not count.
    """

    state: LiveState
    uptime_s: float
    running: int  # requests with a sample in the passes, or paused
    waiting: int  # requests of which no sample has begun
    sequences: int  # in the passes
    paused: int  # sequences that gave their memory back and wait to be computed again
    kv_blocks_used: int  # in use, those of kept prefixes included
    kv_blocks_cached: int  # of these, held by kept prefixes alone: given up as soon as somebody needs them
    kv_blocks_total: int  # the budget
    kv_bytes_total: int
    prefix_hits_tok: int  # prompt tokens that a kept prefix saved
    prefix_misses_tok: int  # prompt tokens that were computed
    preemptions: int  # times that a sequence was paused
    passes: int
    rows: int
    tokens: int  # of answers, kept
    drafted: int
    accepted: int
    drafted_by_position: tuple[int, ...]  # passes that verified a node at this depth, for each sequence
    accepted_by_position: tuple[int, ...]  # and that kept one
    drafters: tuple[Drafted, ...]  # the same for each drafter
    budget: float  # nodes drafted in the last pass, a sequence that could have had some
    goodput_tok_s: float  # tokens kept per second, over the last seconds of work
    pass_rows_histogram: tuple[int, ...]  # entry i: passes of 2**(i-1) < rows <= 2**i


class Live(Protocol):
    """A generator that many users share: requests join and leave at any step. Every method may come from any thread."""

    def submit(self, request: Request, listener: Callable[[Chunk | Failed], None]) -> int:
        """Take a request in; returns its ticket, above 0.

        The listener is called from another thread, chunk by chunk, and must return at once and not raise. After the
        last chunk of every sample (each has a finish_reason), or one Failed, nothing more comes. Raises UsageError for
        a request that cannot be answered, Overloaded when too many wait, Draining after drain or close.
        """
        ...

    def cancel(self, ticket: int) -> None:
        """Abandon a request, also one that ended already; its sequences are gone within a step.

        A call of the listener that is under way may still arrive.
        """
        ...

    def drain(self, timeout_s: float) -> bool:
        """Take no new requests, and wait for the others; whether all ended in time."""
        ...

    def close(self) -> None:
        """Abandon everything (each listener gets a Failed) and stop."""
        ...

    def snapshot(self) -> Snapshot:
        """The numbers now; cheap."""
        ...
