"""The figures, by hand: each definition on trials whose numbers are known."""

from __future__ import annotations

from dataclasses import replace

from tests.bench.scripted import trial

from outrider.bench.contenders import Cost
from outrider.bench.figures import Row, Spread, differences, failures, rows
from outrider.bench.trials import Trial

BOTH = ("none", "ngram")


def row(found: list[Row], task: str, drafter: str) -> Row:
    (one,) = [row for row in found if (row.task, row.drafter) == (task, drafter)]
    return one


def table(trials: list[Trial], plain: str | None = "none", greedy: bool = True) -> list[Row]:
    names = list(dict.fromkeys(trial.contender for trial in trials))
    return rows(trials, names, plain, greedy)


def test_speed_is_total_tokens_over_total_seconds_and_not_a_mean_of_ratios() -> None:
    ids = range(101)  # 100 of them timed
    found = table(
        [
            trial("qa", "none", 0, ids, 10.0, number=1),
            trial("qa", "none", 0, ids, 40.0, number=2),
            trial("qa", "ngram", 0, ids, 2.0, number=1),
            trial("qa", "ngram", 0, ids, 38.0, number=2),
        ]
    )
    assert row(found, "qa", "none").tokens_per_s == Spread(4.0, 4.0, 4.0)
    assert row(found, "qa", "ngram").tokens_per_s == Spread(5.0, 5.0, 5.0)
    assert row(found, "qa", "ngram").speedup == Spread(1.25, 1.25, 1.25)
    assert row(found, "qa", "none").speedup == Spread(1.0, 1.0, 1.0)


def test_the_median_of_the_rounds_and_their_range() -> None:
    trials = []
    for round_, (plain_s, ngram_s) in enumerate([(4.0, 2.0), (4.0, 1.0), (8.0, 8.0)]):
        trials += [trial("qa", "none", round_, range(9), plain_s), trial("qa", "ngram", round_, range(9), ngram_s)]
    ngram = row(table(trials), "all", "ngram")
    assert ngram.speedup == Spread(2.0, 1.0, 4.0)
    assert ngram.tokens_per_s == Spread(4.0, 1.0, 8.0)
    assert ngram.decode_s == 11.0 / 3


def test_all_is_every_task_together() -> None:
    trials = [
        trial("qa", "none", 0, range(11), 10.0),
        trial("qa", "ngram", 0, range(11), 5.0),
        trial("rag", "none", 0, range(31), 10.0),
        trial("rag", "ngram", 0, range(31), 10.0),
    ]
    found = table(trials)
    assert [(one.task, one.drafter) for one in found] == [(t, d) for t in ("qa", "rag", "all") for d in BOTH]
    everything = row(found, "all", "ngram")
    assert everything.prompts == 2
    assert everything.speedup == Spread.of([(40 / 15) / (40 / 20)])


def test_counts_by_position_are_summed() -> None:
    first = Cost(4, 0.25, 0.5, (4, 3), (4, 2), (2, 1))
    second = Cost(6, 0.75, 1.5, (6,), (6,), (3,))
    trials = [trial("qa", "ngram", 0, range(20), cost=first), trial("qa", "ngram", 1, range(20), cost=second)]
    found = row(table(trials, plain=None), "qa", "ngram")
    assert (found.tokens, found.passes, found.tokens_per_pass) == (40, 10, 4.0)
    assert found.drafted_per_position == (10, 3)
    assert found.reached_per_position == (10, 2)
    assert found.accepted_per_position == (5, 1)
    assert found.acceptance_per_position == (0.5, 0.5)
    assert (found.draft_s, found.target_s) == (0.5, 1.0)


def test_identical_is_a_share_of_prompts_over_all_rounds() -> None:
    trials = []
    for round_ in range(2):
        for number in range(4):
            wrong = number == 3 and round_ == 1
            trials.append(trial("qa", "none", round_, [1, 2, 3], number=number))
            trials.append(trial("qa", "ngram", round_, [1, 9, 3] if wrong else [1, 2, 3], number=number))
    found = table(trials)
    assert row(found, "all", "none").identical == 1.0
    assert row(found, "all", "ngram").identical == 0.75
    (one,) = differences(trials, "none")
    assert (one.drafter, one.place, one.found, one.plain) == ("ngram", 1, 9, 2)
    assert one.sentence == (
        "ngram changed the answer to question qa-3 (qa): token 2 is id 9, and id 2 in plain decoding"
    )


def test_a_shorter_answer_is_another_one() -> None:
    trials = [trial("qa", "none", 0, [1, 2, 3]), trial("qa", "ngram", 0, [1, 2])]
    assert row(table(trials), "qa", "ngram").identical == 0.0
    (one,) = differences(trials, "none")
    assert "token 3 is the end, and id 3 in plain decoding" in one.sentence


def test_plain_decoding_that_contradicts_itself_is_found() -> None:
    trials = [trial("qa", "none", 0, [1, 2]), trial("qa", "none", 1, [1, 3])]
    assert row(table(trials), "qa", "none").identical == 0.0
    assert [one.drafter for one in differences(trials, "none")] == ["none"]


def test_a_failed_prompt_is_counted_and_in_no_sum() -> None:
    trials = [
        trial("qa", "none", 0, range(11), 10.0, number=1),
        trial("qa", "none", 0, range(11), 90.0, number=2),
        trial("qa", "ngram", 0, range(11), 5.0, number=1),
        trial("qa", "ngram", 0, None, number=2),
        trial("qa", "ngram", 1, None, number=2),
    ]
    ngram = row(table(trials), "qa", "ngram")
    assert (ngram.prompts, ngram.failed, ngram.tokens) == (2, 1, 11)
    assert ngram.speedup == Spread(2.0, 2.0, 2.0)  # over the prompt that both answered
    assert ngram.identical == 1.0
    assert [failure.round for failure in failures(trials)] == [0]


def test_where_everything_failed_nothing_is_known() -> None:
    found = row(table([trial("qa", "none", 0, None), trial("qa", "ngram", 0, None)]), "all", "ngram")
    assert (found.prompts, found.failed, found.tokens) == (1, 1, 0)
    assert (found.tokens_per_s, found.speedup, found.identical, found.tokens_per_pass) == (None, None, None, None)
    assert (found.decode_s, found.draft_s, found.acceptance_per_position) == (None, None, None)


def test_answers_of_one_token_have_no_speed() -> None:
    found = row(table([trial("qa", name, 0, [1], 0.0) for name in BOTH]), "qa", "ngram")
    assert (found.tokens_per_s, found.speedup, found.identical) == (None, None, 1.0)


def server_trial(text: str) -> Trial:
    found = trial("qa", "server", 0, range(11), 5.0)
    assert found.answer is not None
    return replace(found, answer=replace(found.answer, text=text, ids=None, cost=None))


def test_a_server_has_a_speed_and_no_speedup_and_texts_are_compared_at_temperature_0() -> None:
    plain = trial("qa", "none", 0, range(11), 10.0)
    assert plain.answer is not None
    for text, identical in ((plain.answer.text, 1.0), ("other", 0.0)):
        trials = [plain, server_trial(text)]
        found = row(table(trials), "qa", "server")
        assert found.tokens_per_s == Spread(2.0, 2.0, 2.0)
        assert (found.speedup, found.passes, found.acceptance_per_position) == (None, None, None)
        assert found.identical == identical
        assert row(table(trials, greedy=False), "qa", "server").identical is None
        assert differences(trials, "none") == []
    alone = row(table([server_trial("x")], plain=None), "all", "server")
    assert (alone.identical, alone.speedup) == (None, None)


def test_nothing_measured_is_no_row() -> None:
    assert rows([], BOTH, "none", True) == []
