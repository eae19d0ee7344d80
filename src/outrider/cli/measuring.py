"""A profile for a command: the one that was kept, or a new one that is kept for the next time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from outrider.cli.tools import Site
from outrider.cost.drafting import measure_drafter
from outrider.cost.model import fit
from outrider.cost.profile import Grid, measure
from outrider.cost.store import Key, Place, Store
from outrider.cost.types import Profile
from outrider.models import cache

FOLDER = "profiles"
FEW = 2  # numbers of rows; one says nothing of what a row costs
BUSY = 0.15  # mean relative error of the fit; a quiet machine stays well below half of it


@dataclass(frozen=True, slots=True)
class Found:
    """A profile, of which place, and whether it had been measured before."""

    profile: Profile
    place: Place
    kept: bool


def profile_of(site: Site, grids: Sequence[Grid], drafters: Sequence[str], refresh: bool) -> Found:
    """The profile of the first grid that one is kept for, or a new one of the first; with what the drafters cost.

    A profile that cannot be kept is a warning on standard error, for it can always be measured again.
    """
    able = site.backend.capabilities
    place = Place.here(able.isa, able.threads)
    store = Store(cache.directory() / FOLDER)
    keys = [Key.of(place, site.model, site.file, repr(grid)) for grid in grids]
    known = None if refresh else next(((key, found) for key in keys if (found := store.find(key))), None)
    if known is None:
        _say(f"measuring what a pass costs, for about {grids[0].seconds:.0f} s")
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        key, profile = keys[0], measure(site.backend, grids[0], time.perf_counter, date)
    else:
        key, profile = known
    missing = [name for name in drafters if name not in profile.drafters]
    if missing:
        costs = {name: measure_drafter(site.drafter(name), site.backend.vocab, time.perf_counter) for name in missing}
        profile = replace(profile, drafters={**profile.drafters, **costs})
    if known is None or missing:
        try:
            store.keep(key, profile)
        except OSError as error:
            _say(f"warning: the profile is not kept ({error.strerror or error}: {cache.directory() / FOLDER})")
    off = float(abs(fit(profile.passes).errors(profile.passes)).mean())
    rows = {cost.rows for cost in profile.passes}
    if len(rows) < FEW:
        _say(
            f"warning: there was only time for passes of {min(rows)} rows, which says nothing of others; repeat with "
            "--refresh when the machine is quiet"
        )
    elif off > BUSY:
        _say(
            f"warning: the measured passes are off by {100 * off:.0f} % from any smooth cost, so the machine was busy; "
            "repeat with --refresh when it is quiet"
        )
    return Found(profile, place, known is not None)


def _say(text: str) -> None:
    print(f"outrider: {text}", file=sys.stderr, flush=True)
