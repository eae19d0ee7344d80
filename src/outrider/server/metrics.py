"""Prometheus metrics: what the engine says of itself, and what this server saw of each request.

A registry of its own, so that two servers in a process do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from outrider.api import LiveState, Snapshot
from outrider.server.house import House
from outrider.server.note import Note

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_TOKEN_S = (0.001, 0.002, 0.004, 0.006, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_REQUEST_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize", "/detokenize")
_OTHER = "other"

# name (outrider_ before it), what it says, the field of a Snapshot
_GAUGES = (
    ("requests_running", "Requests with a sample in the passes, or paused", "running"),
    ("requests_waiting", "Requests of which no sample has begun", "waiting"),
    ("sequences", "Sequences in the passes", "sequences"),
    ("sequences_paused", "Sequences that gave their memory back for a while", "paused"),
    ("kv_blocks_used", "Blocks of keys and values in use, kept prefixes included", "kv_blocks_used"),
    ("kv_blocks_cached", "Blocks that only kept prefixes hold", "kv_blocks_cached"),
    ("kv_blocks_total", "The budget in blocks", "kv_blocks_total"),
    ("kv_bytes_total", "The budget in bytes", "kv_bytes_total"),
    ("speculation_budget", "Nodes drafted in the last pass for a sequence that could have some", "budget"),
    ("goodput_tokens_per_second", "Tokens kept per second over the last seconds of work", "goodput_tok_s"),
    ("uptime_seconds", "Since the engine began", "uptime_s"),
)
_COUNTERS = (
    ("passes", "Passes of the target", "passes"),
    ("rows", "Rows computed in them", "rows"),
    ("tokens", "Tokens of answers", "tokens"),
    ("preemptions", "Times that a sequence was paused", "preemptions"),
    ("prefix_hits_tokens", "Prompt tokens that a kept prefix saved", "prefix_hits_tok"),
    ("prefix_misses_tokens", "Prompt tokens that were computed", "prefix_misses_tok"),
)


class _Engine(Collector):
    """The Live's snapshot, taken when somebody asks."""

    def __init__(self, house: House) -> None:
        self._house = house

    def collect(self) -> Iterator[Metric]:
        """Every metric of the snapshot."""
        found = self._house.live.snapshot()
        for name, says, field in _GAUGES:
            yield GaugeMetricFamily(f"outrider_{name}", says, getattr(found, field))
        for name, says, field in _COUNTERS:
            yield CounterMetricFamily(f"outrider_{name}", says, getattr(found, field))
        yield self._state(found)
        yield from _drafts(found)
        yield _rows(found)
        info = {"model": self._house.model, "fingerprint": self._house.fingerprint}
        info |= {"drafter": self._house.drafter, "rule": self._house.rule}
        yield InfoMetricFamily("outrider", "What is served", info)

    def _state(self, found: Snapshot) -> Metric:
        family = GaugeMetricFamily("outrider_state", "1 for the state that the engine is in", labels=["state"])
        for state in LiveState:
            family.add_metric([state.value], float(found.state is state))
        return family


def _drafts(found: Snapshot) -> Iterator[Metric]:
    """By drafter and position, 1 for the first; the sums are over all of them and count tree nodes beside each."""
    for name, says, positions in (
        ("drafted_positions", "Passes that verified a node of this drafter at this position", "drafted_by_position"),
        ("accepted_positions", "Passes that kept a node of this drafter at this position", "accepted_by_position"),
    ):
        family = CounterMetricFamily(f"outrider_{name}", says, labels=["drafter", "position"])
        for one in found.drafters:
            for position, count in enumerate(getattr(one, positions), 1):
                family.add_metric([one.name, str(position)], count)
        yield family
    for name, says, field in (
        ("drafted_tokens", "Tokens drafted", "drafted"),
        ("accepted_tokens", "Tokens drafted and kept", "accepted"),
    ):
        family = CounterMetricFamily(f"outrider_{name}", says, labels=["drafter"])
        for one in found.drafters:
            family.add_metric([one.name], getattr(one, field))
        yield family


def _rows(found: Snapshot) -> Metric:
    """The passes by their rows, in powers of two."""
    buckets: list[tuple[str, float]] = []
    below = 0
    for power, count in enumerate(found.pass_rows_histogram):
        below += count
        buckets.append((str(float(1 << power)), below))
    buckets.append(("+Inf", below))
    return HistogramMetricFamily("outrider_pass_rows", "Rows of a pass", buckets=buckets, sum_value=found.rows)


class Meters:
    """What is counted over the requests of one server."""

    def __init__(self, house: House) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Engine(house))
        registry = self._registry
        self._requests = Counter(
            "outrider_http_requests",
            "HTTP requests by route, status and outcome",
            ["route", "status", "outcome"],
            registry=registry,
        )
        self.in_flight = Gauge("outrider_http_requests_in_flight", "Requests being answered", registry=registry)
        self._first = Histogram(
            "outrider_time_to_first_token_seconds", "From request to first token", buckets=_FIRST_S, registry=registry
        )
        self._token = Histogram(
            "outrider_time_per_output_token_seconds",
            "From the first token to the end, a token",
            buckets=_TOKEN_S,
            registry=registry,
        )
        self._whole = Histogram(
            "outrider_request_seconds", "From request to end of an answer", buckets=_REQUEST_S, registry=registry
        )
        self._prompt = Counter("outrider_prompt_tokens", "Tokens of prompts", registry=registry)
        self._completion = Counter("outrider_completion_tokens", "Tokens of whole answers", registry=registry)

    def see(self, note: Note) -> None:
        """Count a request that is over."""
        route = note.path if note.path in _ROUTES else _OTHER  # a label for every path would be memory for strangers
        self._requests.labels(route, str(note.status or 0), note.outcome).inc()
        if note.prompt_tok is None:
            return
        self._prompt.inc(note.prompt_tok)
        if note.first_s is not None:
            self._first.observe(note.first_s)
        if note.completion_tok is None:
            return
        self._completion.inc(note.completion_tok)
        self._whole.observe(note.seconds)
        if note.first_s is not None and note.completion_tok > 1:
            self._token.observe((note.seconds - note.first_s) / (note.completion_tok - 1))

    def text(self) -> bytes:
        """All of it in Prometheus' text form."""
        return generate_latest(self._registry)
