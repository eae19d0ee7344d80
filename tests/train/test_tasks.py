"""What leads a question: by its seed alone, in the parts that are stated, and in forms that texts fit into."""

from __future__ import annotations

from string import Formatter

import pytest

from outrider.api import FinishReason
from outrider.train import tasks


def test_the_kinds_come_in_their_parts() -> None:
    leads = [tasks.lead(seed) for seed in range(4000)]
    bare = sum(lead == tasks.BARE_LEAD for lead in leads) / len(leads)
    begun = sum(bool(lead.form) and not lead.texts for lead in leads) / len(leads)
    one = sum(len(lead.texts) == 1 for lead in leads) / len(leads)
    assert (bare, begun, one) == pytest.approx((tasks.BARE, tasks.BEGUN, tasks.ABOUT_ONE), abs=0.03)
    assert max(len(lead.texts) for lead in leads) == tasks.MOST_TEXTS
    assert all(low <= most <= high for lead in leads for _, most in lead.texts for low, high in [tasks.TEXT_TOKENS])
    assert leads == [tasks.lead(seed) for seed in range(4000)]


def test_every_word_is_used() -> None:
    leads = [tasks.lead(seed) for seed in range(20000)]
    assert {start for lead in leads for start, _ in lead.texts} == set(tasks.TEXTS)
    assert {lead.form for lead in leads if not lead.texts} == {"", *tasks.STARTS}
    assert {lead.form for lead in leads if len(lead.texts) == 1} == set(tasks.FORMS)


@pytest.mark.parametrize("form", [*tasks.FORMS, *tasks.ASKED, *tasks.COMPARED])
def test_a_form_holds_its_text_once(form: str) -> None:
    assert [name for _, name, _, _ in Formatter().parse(form) if name is not None] == ["0"]


def test_texts_may_hold_anything() -> None:
    texts = ("{0} {1} {x}", "}{", "100 %")
    for seed in range(200):
        lead = tasks.lead(seed)
        told = lead.filled(texts[: len(lead.texts)])
        assert all(text in told for text in texts[: len(lead.texts)])


def test_starts_end_where_a_token_may_begin() -> None:
    """Behind a blank a model hardly ever goes on with a word: its tokens bring theirs."""
    assert all(start == start.rstrip(" ") for start in (*tasks.STARTS, *tasks.TEXTS, *tasks.ASKED))


def test_a_text_ends_with_a_sentence() -> None:
    body = " said it. " + "Then all was well. " * 12
    assert tasks.whole("He", body + "And the", FinishReason.LENGTH) == ("He" + body).strip()
    assert tasks.whole("He", body + "And the", FinishReason.STOP) == "He" + body + "And the"
    assert tasks.whole("He", " said it. And", FinishReason.LENGTH) is None
    assert tasks.whole("He", " went on" * 60, FinishReason.LENGTH) is None
