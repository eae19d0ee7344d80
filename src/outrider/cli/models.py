"""`outrider models`: the models that are already on this machine."""

from __future__ import annotations

from outrider.cli.render import columns
from outrider.cli.tools import Tools

MB = 1_000_000


def models(tools: Tools) -> int:
    """Prints one line a model; returns the exit status."""
    found = tools.cached()
    if not found:
        print('No model is cached yet: outrider run "..." fetches the default one.')
        return 0
    lines = [[model.source, f"{model.size_bytes / MB:.0f} MB", str(model.path)] for model in found]
    print(columns([["source", "size", "file"], *lines], "lrl"))
    return 0
