"""As a program: `outrider serve` over a table for a model.   served.py SCENARIO ARGUMENTS...

Scenarios: quick answers at once; slow takes 50 ms a chunk and never ends by itself.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tests.cli.scripted import ScriptedModel, tools
from tests.server.worlds import TableFace, ThreadLive, engine, raving

from outrider.cli.main import main
from outrider.cli.tools import Serve, Served


def serve(scenario: str, how: Serve) -> Served:
    between = (lambda: time.sleep(0.05)) if scenario == "slow" else (lambda: None)
    return Served(ThreadLive(engine(raving()), between, how.slots), TableFace(), "table", "0123456789abcdef")


if __name__ == "__main__":
    doors = replace(tools(ScriptedModel(())), serve=lambda how: serve(sys.argv[1], how))
    sys.exit(main(sys.argv[2:], doors))
