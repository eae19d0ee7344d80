"""The engine's own service behind the server: many at once, answers as alone, nothing left behind."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.server.worlds import HELLO, Site, compiler, engine, raving, raw_request, serving, wait_for

from outrider.api import Constraint
from outrider.constraints.base import Matcher
from outrider.engine.service import Service
from outrider.server.house import Limits, Settings

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "size": {"enum": [1, 2]}},
    "required": ["colour", "size"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "hero", "schema": SCHEMA}}


@pytest.fixture
def site() -> Iterator[Site[Service]]:
    service = Service(engine(raving()), 1 << 14)
    service.start()
    with serving(service) as found:
        yield found


def quiet(site: Site[Service]) -> bool:
    taken = site.live.snapshot()
    return (taken.running, taken.waiting, taken.sequences, taken.paused) == (0, 0, 0, 0)


def mixed(number: int) -> dict[str, Any]:
    """A request of one kind or another."""
    asked: dict[str, Any] = {"messages": [*HELLO, {"role": "assistant", "content": "x" * (number % 7)}, *HELLO]}
    asked |= {"max_tokens": 5 + number % 40, "seed": number, "temperature": [0, 0.7, 1.3][number % 3]}
    if number % 5 == 0:
        asked["response_format"] = FORM
    if number % 7 == 0:
        asked["stop"] = ["a", "the"]
    if number % 11 == 0:
        asked["n"] = 2
    if number % 13 == 0:
        asked["speculate"] = False
    return asked


@pytest.mark.slow
def test_64_at_once_are_each_answered_as_alone(site: Site[Service]) -> None:
    def answer(number: int) -> list[Any]:
        return [choice["message"]["content"] for choice in site.chat(**mixed(number), story=True)["choices"]]

    def leave(number: int) -> None:
        """A client that goes away after some bytes."""
        body = json.dumps({**mixed(number), "stream": True, "max_tokens": 2000}).encode()
        with raw_request(site.port, body) as raw:
            raw.recv(200)

    alone = [answer(number) for number in range(64)]
    with ThreadPoolExecutor(24) as pool:
        order = random.Random(1).sample(range(64), 64)
        together = {number: pool.submit(answer, number) for number in order}
        left = [pool.submit(leave, number) for number in range(12)]
        assert [together[number].result(120) for number in range(64)] == alone
        for one in left:
            one.result(60)
    assert len({str(one) for one in alone}) > 40
    wait_for(lambda: quiet(site))
    taken = site.live.snapshot()
    assert 0 < taken.accepted < taken.drafted
    assert taken.prefix_hits_tok > 0


def test_the_next_turn_of_a_chat_finds_its_beginning_in_the_cache(site: Site[Service]) -> None:
    told = [{"role": "user", "content": "a long question about fish " * 5}]
    first = site.chat(messages=told, temperature=0, max_tokens=20)
    assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    told += [{"role": "assistant", "content": "blue"}, {"role": "user", "content": "and now?"}]
    second = site.chat(messages=told, temperature=0, max_tokens=5, n=2)["usage"]
    assert 50 < second["prompt_tokens_details"]["cached_tokens"] < second["prompt_tokens"]


def test_keys_share_no_cache() -> None:
    service = Service(engine(raving()), 1 << 14)
    service.start()
    told = [{"role": "user", "content": "a long question about fish " * 5}]
    cached = []
    with serving(service, Settings(keys=("first-key", "second-key"))) as site:
        for key in ("first-key", "first-key", "second-key"):
            headers = {"Authorization": f"Bearer {key}"}
            body = {"messages": told, "max_tokens": 2}
            found = site.client.post("/v1/chat/completions", json=body, headers=headers).json()
            cached.append(found["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == cached[2] == 0 < cached[1]


def test_what_can_never_fit_is_refused_with_the_numbers() -> None:
    service = Service(engine(raving()), 64)
    service.start()
    with serving(service) as small:
        status, error = small.refusal(messages=[{"role": "user", "content": "x" * 100}], max_tokens=50)
    assert status == 400
    assert "blocks" in error["message"]


class SlowForms:
    """A maker of matchers that does not come to an end with a form before it is told to go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked = self.at_once = self.most_at_once = 0
        self._compile = compiler()
        self._lock = threading.Lock()

    def __call__(self, constraint: Constraint) -> Matcher:
        with self._lock:
            self.asked += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.go_on.wait(60)
        with self._lock:
            self.at_once -= 1
        return self._compile(constraint)


@pytest.fixture
def slow() -> Iterator[tuple[Site[Service], SlowForms]]:
    forms = SlowForms()
    service = Service(engine(raving(), matchers=forms), 1 << 14)
    service.start()
    try:
        with serving(service) as found:
            yield found, forms
    finally:
        forms.go_on.set()


def test_forms_that_take_long_to_compile_hold_up_neither_streams_nor_newcomers(
    slow: tuple[Site[Service], SlowForms],
) -> None:
    """More of them than any pool has threads: others are answered meanwhile, and they themselves in the end."""
    site, forms = slow
    with ThreadPoolExecutor(40) as pool:
        formed = [pool.submit(site.chat, response_format=FORM, seed=seed, max_tokens=60) for seed in range(40)]
        wait_for(lambda: forms.asked)
        for seed in range(3):
            assert len(site.stream(max_tokens=20, seed=seed, ignore_eos=True)) > 2
        assert site.client.get("/health").status_code == 200
        assert not any(one.done() for one in formed)
        assert forms.most_at_once <= 2
        forms.go_on.set()
        for one in formed:
            assert "colour" in one.result(60)["choices"][0]["message"]["content"]
    assert forms.most_at_once <= 2


def test_a_client_that_goes_away_while_its_form_is_compiled_leaves_nothing_behind(
    slow: tuple[Site[Service], SlowForms],
) -> None:
    site, forms = slow
    body = json.dumps({"messages": HELLO, "response_format": FORM, "max_tokens": 3000}).encode()
    clients = [raw_request(site.port, body) for _ in range(4)]
    wait_for(lambda: forms.asked == 2)
    for client in clients:
        client.close()
    wait_for(lambda: [line["outcome"] for line in site.logged() if line.get("path")] == ["gone"] * 4)
    forms.go_on.set()
    wait_for(lambda: forms.at_once == 0)
    assert site.chat(max_tokens=3)["usage"]["completion_tokens"] <= 3
    wait_for(lambda: quiet(site))
    assert forms.asked == 2, "those that had not begun are never compiled"


def test_the_time_of_a_request_counts_while_its_form_is_compiled() -> None:
    forms = SlowForms()
    service = Service(engine(raving(), matchers=forms), 1 << 14)
    service.start()
    try:
        with serving(service, Settings(limits=Limits(request_s=0.2))) as site:
            assert site.refusal(response_format=FORM)[0] == 504
            forms.go_on.set()
            wait_for(lambda: forms.at_once == 0 and quiet(site))
    finally:
        forms.go_on.set()


def test_a_client_that_goes_away_frees_its_sequence(site: Site[Service]) -> None:
    asked = {"messages": HELLO, "max_tokens": 4000, "stream": True, "temperature": 1.2, "logit_bias": {"2": -100}}
    with raw_request(site.port, json.dumps(asked).encode()) as raw:
        raw.recv(100)
    wait_for(lambda: quiet(site))
    assert site.live.snapshot().tokens < 4000
