"""What `outrider plan export` prints."""

from __future__ import annotations

import sys

from outrider.cli.sinks import print_json
from outrider.errors import UsageError
from outrider.plan.export import Engine, Method, Settings
from outrider.plan.export import export as write


def export(engine: Engine, method: Method, gamma: int, draft_model: str | None, as_json: bool) -> int:
    """Prints an engine's configuration; returns the exit status. Raises UsageError."""
    if gamma < 1:
        raise UsageError(f"--gamma is {gamma}: give 1 or more; without drafts an engine needs no configuration")
    if method is Method.DRAFT_MODEL and not draft_model:
        raise UsageError(
            "--draft-model is missing: name the draft model as the engine knows it, a repository or a file"
        )
    if method is Method.NGRAM and draft_model:
        raise UsageError(
            f"--draft-model is {draft_model!r}, which n-gram lookup does not use: add --method draft-model"
        )
    written = write(engine, Settings(method, gamma, draft_model))
    if as_json:
        data = {"engine": engine.value, "version": written.version, "config": dict(written.config)}
        print_json({**data, "usage": written.usage, "note": written.note}, sys.stdout)
        return 0
    print(f"{written.version}; put your target in place of MODEL.\n\n{written.usage}\n\n{written.note}")
    return 0
