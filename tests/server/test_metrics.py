"""/metrics: what the engine says, and what the server saw."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.server.worlds import Site, ThreadLive, engine, raving, serving

from outrider.server.metrics import Meters


def samples(site: Site[ThreadLive]) -> dict[str, float]:
    """Every sample by its name and labels."""
    response = site.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(response.text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_metrics() -> None:
    with serving(ThreadLive(engine(raving()))) as site:
        before = samples(site)
        usage = site.chat(max_tokens=9, ignore_eos=True)["usage"]  # of one token alone there is no time for each
        site.refusal(nonsense=1)
        site.client.get("/no/such/place")
        found = samples(site)
    assert before["outrider_completion_tokens_total"] == 0
    assert found["outrider_completion_tokens_total"] == usage["completion_tokens"] > 0
    assert found["outrider_prompt_tokens_total"] == usage["prompt_tokens"]
    chat = "outcome={},route=/v1/chat/completions,status={}"
    assert found[f"outrider_http_requests_total{{{chat.format('done', 200)}}}"] == 1
    assert found[f"outrider_http_requests_total{{{chat.format('refused', 400)}}}"] == 1
    assert found["outrider_http_requests_total{outcome=refused,route=other,status=404}"] == 1
    assert found["outrider_http_requests_in_flight"] == 0
    for name in ("time_to_first_token", "time_per_output_token", "request"):
        assert found[f"outrider_{name}_seconds_count"] == 1
        assert found[f"outrider_{name}_seconds_sum"] > 0


def test_the_engine_s_own_numbers() -> None:
    with serving(ThreadLive(engine(raving()))) as site:
        found = samples(site)
    assert found["outrider_requests_waiting"] == 2
    assert (found["outrider_passes_total"], found["outrider_rows_total"], found["outrider_tokens_total"]) == (
        11,
        40,
        30,
    )
    assert found["outrider_drafted_positions_total{drafter=ngram,position=1}"] == 9
    assert found["outrider_drafted_positions_total{drafter=predicted,position=1}"] == 2
    assert found["outrider_accepted_positions_total{drafter=ngram,position=3}"] == 2
    assert found["outrider_accepted_positions_total{drafter=predicted,position=3}"] == 0
    assert found["outrider_drafted_tokens_total{drafter=predicted}"] == 4
    assert found["outrider_accepted_tokens_total{drafter=ngram}"] == 13
    assert found["outrider_state{state=ready}"] == 1
    assert found["outrider_state{state=draining}"] == 0
    rows = [found[f"outrider_pass_rows_bucket{{le={le}}}"] for le in ("1.0", "2.0", "4.0", "+Inf")]
    assert rows == [1, 3, 11, 11]
    assert found["outrider_pass_rows_sum"] == 40
    assert found["outrider_kv_blocks_used"] == 3
    assert found["outrider_goodput_tokens_per_second"] == 99
    assert found["outrider_speculation_budget"] == 3.5
    info = [name for name in found if name.startswith("outrider_info")]
    assert len(info) == 1
    assert "model=table" in info[0]


def test_two_servers_in_a_process_do_not_meet() -> None:
    from tests.server.worlds import house

    first, second = (Meters(house(ThreadLive(engine(raving())))) for _ in range(2))
    first.in_flight.inc()
    assert b"outrider_http_requests_in_flight 1.0" in first.text()
    assert b"outrider_http_requests_in_flight 0.0" in second.text()
