"""deploy/: well-formed, and every metric that the dashboard shows exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from tests.server.worlds import ThreadLive, engine, house, raving

from outrider.server.access import KEY_VARIABLE
from outrider.server.metrics import Meters

DEPLOY = Path(__file__).parents[2] / "deploy"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return found


def names() -> set[str]:
    """Every name that /metrics tells, those of histograms' parts among them."""
    text = Meters(house(ThreadLive(engine(raving())))).text().decode()
    told = set(re.findall(r"^(outrider_\w+)[ {]", text, re.MULTILINE))
    # A histogram without observations tells its parts already, and a labelled counter nothing yet.
    counters = re.findall(r"^# TYPE (outrider_\w+?)(?:_total)? counter", text, re.MULTILINE)
    return told | {f"{name}_total" for name in counters}


def test_every_metric_of_the_dashboard_exists() -> None:
    asked: set[str] = set()
    for panel in dashboard()["panels"]:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            found = set(re.findall(r"\boutrider_\w+", target["expr"]))
            assert found, target
            assert target["expr"].count("(") == target["expr"].count(")")
            asked |= found
    assert asked - names() == set()
    assert len(asked) > 20


def test_what_matters_is_on_the_dashboard() -> None:
    text = json.dumps(dashboard())
    for name in (
        *("requests_waiting", "time_to_first_token", "time_per_output_token", "tokens_total", "passes", "drafted"),
        *("accepted_positions", "pass_rows", "kv_blocks_used", "preemptions", "speculation_budget", "goodput"),
    ):
        assert f"outrider_{name}" in text


def test_panels_have_room_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_compose_file() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = found["services"]
    assert set(services) == {"outrider", "prometheus", "grafana"}
    assert services["outrider"]["command"][:2] == ["outrider", "serve"]
    assert KEY_VARIABLE in services["outrider"]["environment"]
    for service in services.values():
        for config in service.get("configs", ()):
            assert yaml.safe_load(found["configs"][config["source"]]["content"])
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in found["volumes"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing is open to other machines unless somebody says so"
    scraped = yaml.safe_load(found["configs"]["prometheus"]["content"])["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["outrider:8000"]
    source = yaml.safe_load(found["configs"]["datasource"]["content"])["datasources"][0]
    assert {panel["datasource"]["uid"] for panel in dashboard()["panels"]} == {source["uid"]}
