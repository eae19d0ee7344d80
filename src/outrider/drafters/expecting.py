"""What a request predicts comes first, whoever else drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.core.step import Budget, Outcome, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.base import Drafter, ask, may_guess, named, names
from outrider.drafters.predicted import PredictedDrafter


class ExpectingDrafter:
    """The predicted text's guess where there is one, else the inner drafter's, which is then asked alone.

    A draft of the predicted text is reported to the inner drafter as EMPTY. Sequences without a prediction cost
    next to nothing.
    """

    def __init__(self, inner: Drafter) -> None:
        self.name = inner.name
        self.followers = int(getattr(inner, "followers", 0))
        self._inner = inner
        self._predicted = PredictedDrafter()
        self._others = names(inner)
        self.names = tuple(dict.fromkeys((*self._others, self._predicted.name)))
        self._starts: dict[int, int] = {}  # where the answer begins
        self._known: set[int] = set()  # sequences with a prediction
        self._drafted: set[int] = set()  # those whose present draft is the predicted text's

    def begin(self, seq: int, prompt: Sequence[int]) -> None:
        self._starts[seq] = len(prompt)
        self._inner.begin(seq, prompt)

    def propose(self, views: Sequence[View], budgets: Sequence[Budget]) -> list[Draft]:
        if not any(view.prediction for view in views):
            return ask(self._inner, self._others, views, budgets)
        for view in views:
            if view.prediction and view.seq not in self._known and may_guess((self._predicted.name,), view):
                self._meet(view)
        drafts = [
            named(draft, self._predicted.name)
            for draft in ask(self._predicted, (self._predicted.name,), views, budgets)
        ]
        self._drafted.update(view.seq for view, draft in zip(views, drafts, strict=True) if draft.tokens)
        places = [place for place, draft in enumerate(drafts) if not draft.tokens]
        asked = [views[place] for place in places]
        found = ask(self._inner, self._others, asked, [budgets[place] for place in places])
        for place, draft in zip(places, found, strict=True):
            drafts[place] = draft
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        if self._known:
            self._predicted.observe([outcome for outcome in outcomes if outcome.seq in self._known])
        if self._drafted:
            outcomes = [
                replace(outcome, draft=EMPTY, path=()) if outcome.seq in self._drafted else outcome
                for outcome in outcomes
            ]
            self._drafted.difference_update(outcome.seq for outcome in outcomes)
        self._inner.observe(outcomes)

    def end(self, seq: int) -> None:
        self._starts.pop(seq, None)
        self._drafted.discard(seq)
        if seq in self._known:
            self._known.remove(seq)
            self._predicted.end(seq)
        self._inner.end(seq)

    def _meet(self, view: View) -> None:
        """A first view of a sequence with a prediction; part of its answer may be written already."""
        start = self._starts[view.seq]
        self._known.add(view.seq)
        self._predicted.begin(view.seq, view.tokens[:start])
        self._predicted.observe([Outcome(view.seq, EMPTY, (), tuple(view.tokens[start:]))])
