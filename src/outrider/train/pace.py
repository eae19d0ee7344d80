"""How fast a run is, and how long it will take: steps, states to compute, evaluations."""

from __future__ import annotations

import time


class Pace:
    """Measured as the run goes; seconds are of the wall clock."""

    def __init__(self) -> None:
        self.step_s = 0.0  # of a recent step
        self.tokens_per_s = 0.0  # trained, in recent steps
        self._extract_s, self._extracted = 0.0, 0
        self._last = self._reported = time.monotonic()

    def lap(self) -> float:
        """Seconds since this was last asked."""
        now = time.monotonic()
        lap, self._last = now - self._last, now
        return lap

    def stepped(self, seconds: float, tokens: int) -> None:
        """An optimiser step on so many tokens, without the states it needed."""
        part = 0.1 if self.step_s else 1.0
        self.step_s += part * (seconds - self.step_s)
        self.tokens_per_s += part * (tokens / max(seconds, 1e-9) - self.tokens_per_s)

    def extracted(self, seconds: float, tokens: int) -> None:
        """States of so many tokens were computed."""
        self._extract_s += seconds
        self._extracted += tokens

    def extraction_s(self, tokens: float) -> float:
        """What the states of so many tokens will take."""
        return tokens * self._extract_s / max(1, self._extracted)

    def left_s(self, steps: int, tokens: float, evaluations: int, evaluation_s: float) -> float:
        """What is left of a run: so many steps, the states of so many tokens, and evaluations."""
        return steps * self.step_s + self.extraction_s(tokens) + evaluations * evaluation_s

    def since_report(self) -> float:
        """Seconds since `reported`."""
        return time.monotonic() - self._reported

    def reported(self) -> None:
        """A report was made."""
        self._reported = time.monotonic()
