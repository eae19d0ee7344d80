"""The page: its files and policy; and, in a headless browser, that it does what it says."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright
from tests.server.worlds import HELLO, TOKENIZER, Site, TableFace, ThreadLive, engine, raving, saying, serving, wait_for

from outrider.core.step import Budget, View
from outrider.core.types import EMPTY, Draft
from outrider.drafters.hybrid import First
from outrider.drafters.suffix import SuffixDrafter
from outrider.server.house import Settings
from outrider.testing.drafters import FunctionDrafter

SCREENSHOTS = "OUTRIDER_SCREENSHOTS"
FISH = "red fish, blue fish, old fish, red fish, blue fish, old fish, and the end."
STATIC = Path(str(resources.files("outrider.server"))) / "static"
KEY = "correct-horse"


@pytest.fixture(scope="module")
def site() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(saying(FISH)))) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium or Chrome, as they are installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no chromium is installed, so the page is not tried (apt install chromium)")
    with sync_playwright() as playwright:
        # As root, which containers are, its sandbox does not start.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page; whatever it complains of in its console fails the test."""
    context = browser.new_context(viewport={"width": 1180, "height": 860})
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert [complaint for complaint in complaints if "401" not in complaint] == []


def shoot(page: Page, name: str, tmp_path: Path) -> None:
    """A screenshot for people, where OUTRIDER_SCREENSHOTS says."""
    folder = Path(os.environ.get(SCREENSHOTS, tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def ask(page: Page, site: Site[ThreadLive], question: str = "hi", compare: bool = False) -> None:
    page.goto(site.url)
    expect(page.locator("#model")).to_have_text("table")
    page.set_checked("#compare", compare)
    ask_again(page, question)


def ask_again(page: Page, question: str) -> None:
    page.get_by_label("Your message").fill(question)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_enabled(timeout=20_000)


def test_files_and_policy(site: Site[ThreadLive]) -> None:
    response = site.client.get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    named = set(re.findall(r'(?:href|src)="(/[^"]+)"', response.text))
    assert named == {"/static/style.css", "/static/app.js"}
    for name, kind in (("style.css", "text/css"), ("app.js", "text/javascript")):
        found = site.client.get(f"/static/{name}")
        assert found.headers["content-type"].startswith(kind)
        assert found.headers["x-content-type-options"] == "nosniff"


def test_nothing_is_asked_of_others_and_nothing_is_inline() -> None:
    files = [path for path in STATIC.iterdir() if path.suffix in {".html", ".js", ".css"}]
    assert {"index.html", "app.js", "planner.js", "style.css"} <= {path.name for path in files}
    for path in files:
        text = path.read_text()
        assert len(text.splitlines()) < 400
        addresses = set(re.findall(r"https?://[^\s'\"]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), path.name
        assert not re.search(r"<script(?![^>]* src=)|\sstyle=|\son\w+=", text.partition("<body")[2]), path.name
        assert "innerHTML" not in text


@pytest.mark.slow
def test_tokens_are_coloured_by_where_they_came_from(page: Page, site: Site[ThreadLive], tmp_path: Path) -> None:
    ask(page, site)
    answer = page.locator(".answer .text")
    assert answer.inner_text() == FISH
    counts = {origin: page.locator(f".answer .token.{origin}").count() for origin in ("accepted", "recovered", "bonus")}
    assert all(counts.values()), counts
    assert page.locator(".pass").count() < sum(counts.values()), "fewer passes than tokens"
    assert page.locator(".pass i.kept").count() >= counts["accepted"]
    expect(page.locator("dl.meters").first).to_contain_text("tokens a pass")
    shoot(page, "chat", tmp_path)


@pytest.fixture(scope="module")
def two() -> Iterator[Site[ThreadLive]]:
    """A server with two drafters that are both right at times: the store knows two tokens behind every fifth."""
    text, begin = TOKENIZER.encode(FISH, special=False), len(TableFace().chat(HELLO))

    def guess(view: View, budget: Budget) -> Draft:
        place = len(view.tokens) - begin
        return Draft.chain(tuple(text[place : place + 2][: budget.depth])) if place % 5 == 0 else EMPTY

    drafter = First([FunctionDrafter("store", guess), SuffixDrafter()])
    with serving(ThreadLive(engine(saying(FISH), drafter))) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_guesses_are_told_apart_by_who_made_them(
    page: Page, two: Site[ThreadLive], tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    ask(page, two)
    assert page.locator("#who .token").all_inner_texts() == ["store", "suffix"]
    looks = {}
    for place, name in enumerate(("store", "suffix")):
        token = page.locator(f".answer .token.accepted.by-{place}").first
        token.hover()
        expect(page.get_by_role("tooltip")).to_contain_text(f"accepted, guessed by {name}")
        looks[name] = token.evaluate(
            "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).backgroundImage]"
        )
        assert (
            page.locator(f"#who .by-{place}").evaluate("one => getComputedStyle(one).backgroundColor") == looks[name][0]
        )
        assert page.locator(f".pass i.kept.by-{place}").count() > 0
        expect(page.locator(".answer dl.meters").last).to_contain_text(f"{name}: kept of drafted")
    assert looks["suffix"][0] != looks["store"][0], "a colour of its own"
    assert looks["suffix"][1] != looks["store"][1], "and a pattern of its own, for those who see no colours"
    page.locator(".answer .text").last.focus()
    page.keyboard.press("End")
    expect(page.locator(".answer [aria-live]").last).to_contain_text(
        re.compile("guessed by (suffix|store)|bonus|recovered")
    )
    shoot(page, f"drafters-{scheme}", tmp_path)


@pytest.mark.slow
def test_drafters_can_be_switched_off(page: Page, two: Site[ThreadLive]) -> None:
    page.goto(two.url)
    page.get_by_role("group", name="Who may guess").get_by_label("store").uncheck()
    ask_again(page, "hi")
    assert two.live.asked[-1].drafters == ("suffix",)
    assert page.locator(".answer .token.by-0").count() == 0
    page.get_by_role("group", name="Who may guess").get_by_label("suffix").uncheck()
    ask_again(page, "hi")
    plain = two.live.asked[-1]
    assert (plain.drafters, plain.speculate) == (None, False)
    page.get_by_role("group", name="Who may guess").get_by_label("store").check()
    page.set_checked("#compare", True)
    ask_again(page, "hi")
    expect(page.locator(".verdict")).to_contain_text("identical: yes")
    fast, plain = two.live.asked[-2:]
    assert (fast.drafters, plain.drafters, plain.speculate) == (("store",), None, False)


@pytest.mark.slow
def test_a_token_tells_its_probability_by_mouse_and_by_keyboard(
    page: Page, site: Site[ThreadLive], tmp_path: Path
) -> None:
    ask(page, site)
    page.locator(".answer .token").nth(3).hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("probability 100 %")
    assert tip.locator("tr").count() == 5
    shoot(page, "token", tmp_path)
    page.locator(".answer .text").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".answer .token.at")).to_have_attribute("data-place", "1")
    expect(page.locator(".answer [aria-live]")).to_contain_text("%")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_compare_says_identical(
    page: Page, site: Site[ThreadLive], tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=scheme)
    ask(page, site, compare=True)
    expect(page.locator(".verdict")).to_contain_text("identical: yes")
    fast, plain = page.locator(".answer .text").all()
    assert fast.inner_text() == plain.inner_text() == FISH
    assert page.locator(".answer").nth(0).locator(".accepted").count() > 0
    assert page.locator(".answer").nth(1).locator(".accepted").count() == 0
    expect(page.locator("dl.meters").first).to_contain_text("×")
    assert site.live.asked[-1].speculate is False
    shoot(page, f"compare-{scheme}", tmp_path)


@pytest.mark.slow
def test_compare_says_where_answers_part(page: Page, site: Site[ThreadLive]) -> None:
    """The verdict is a comparison, not a decoration: a server with other ids is caught."""

    def cheat(route: Route) -> None:
        if '"speculate":false' not in (route.request.post_data or ""):
            route.continue_()
            return
        response = route.fetch()
        route.fulfill(
            response=response, body=re.sub(r'"tokens":\[\{"id":(\d)', r'"tokens":[{"id":1\1', response.text())
        )

    page.route("**/v1/chat/completions", cheat)
    ask(page, site, compare=True)
    expect(page.locator(".verdict")).to_contain_text("identical: no, they part at token")


@pytest.mark.slow
def test_settings_reach_the_server(page: Page, site: Site[ThreadLive]) -> None:
    page.goto(site.url)
    page.locator("#length").fill("2")
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Most tokens").fill("9")
    page.get_by_label("System message").fill("Be brief.")
    page.get_by_label("Your message").fill("hi")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_enabled(timeout=20_000)
    request = site.live.asked[-1]
    assert (request.max_draft, request.max_tokens, request.speculate) == (2, 9, True)
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 7)


@pytest.mark.slow
def test_an_answer_can_be_stopped(page: Page) -> None:
    go_on, said = threading.Event(), iter(range(8))

    def between() -> None:
        if next(said, None) is None:
            go_on.wait(60)

    live = ThreadLive(engine(raving()), between)
    with serving(live) as slow:
        page.goto(slow.url)
        page.get_by_label("Your message").fill("hi")
        page.keyboard.press("Enter")
        expect(page.locator(".answer .token").nth(5)).to_be_attached(timeout=20_000)
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#notice")).to_have_text("Stopped.")
        wait_for(lambda: live.cancelled_while_running == 1)
        go_on.set()
        wait_for(lambda: live.snapshot().running == 0)


@pytest.mark.slow
def test_a_key_is_asked_for_where_one_is_needed(page: Page) -> None:
    with serving(ThreadLive(engine(saying(FISH))), Settings(keys=(KEY,))) as keyed:
        page.goto(keyed.url)
        expect(page.locator("#notice")).to_contain_text("API key is missing")
        page.get_by_label("API key").fill(KEY)
        page.get_by_label("API key").press("Enter")
        expect(page.locator("#model")).to_have_text("table")


@pytest.mark.slow
def test_the_planner_shows_the_break_even(page: Page, site: Site[ThreadLive], tmp_path: Path) -> None:
    page.goto(site.url)
    page.get_by_role("tab", name="Chat").press("ArrowRight")
    expect(page.get_by_role("tab", name="Planner")).to_be_focused()
    numbers = page.locator("#numbers")
    expect(numbers).to_contain_text("0.29")
    expect(page.locator("#alpha-plot svg")).to_contain_text("break-even 0.29")
    expect(page.get_by_label("Machine")).to_have_value("h100")
    assert page.locator(".plot svg path.curve").count() == 4
    shoot(page, "planner", tmp_path)
    page.get_by_label("gamma, the draft length").fill("1")
    expect(page.locator("#alpha-plot svg")).to_contain_text("break-even 0.10")
    page.get_by_label("Drafted by").select_option("ngram")
    page.get_by_label("Batch, sequences at once").fill("6")
    expect(page.locator("#batch-caption")).to_contain_text("At 64")
    expect(page.locator("#plan-notice")).to_have_text("")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_can_read_it(
    browser: Browser, two: Site[ThreadLive], tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, device_scale_factor=2, is_mobile=True)
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.goto(two.url)
    page.get_by_label("Your message").fill("hi")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("button", name="Send")).to_be_enabled(timeout=20_000)
    assert page.locator(".answer .text").inner_text() == FISH
    for _ in range(2):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, "nothing sticks out"
        shoot(page, f"phone-{scheme}-{page.locator('[aria-selected=true]').inner_text().lower()}", tmp_path)
        page.get_by_role("tab", name="Planner").click()
        expect(page.locator("#alpha-plot svg")).to_contain_text("break-even")
    context.close()


@pytest.mark.slow
def test_names_and_contrast_hold_up(page: Page, site: Site[ThreadLive]) -> None:
    """What a screen reader needs: every control has a name, and ids are unique."""
    page.goto(site.url)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, textarea, button')]
            .filter(one => !one.labels?.length && !one.textContent.trim() && !one.getAttribute('aria-label'))
            .map(one => one.id)"""
    )
    assert nameless == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        ratios = page.evaluate(_CONTRAST)
        assert min(ratios.values()) >= 4.5, ratios


# The ratio of WCAG 2 between text and ground, for each pair of colours that meet.
_CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim().slice(1);
    const parts = [0, 2, 4].map(at => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const pairs = [['--ink', '--paper'], ['--ink', '--card'], ['--quiet', '--paper'], ['--quiet', '--card'],
    ['--ink', '--accepted'], ['--ink', '--forced'], ['--ink', '--recovered'], ['--ink', '--bonus'],
    ['--ink', '--by-1'], ['--ink', '--by-2'], ['--ink', '--by-3'], ['--ink', '--by-4'], ['--ink', '--by-5'],
    ['--on-accent', '--accent'], ['--recovered-edge', '--card'], ['--accepted-edge', '--paper'], ['--ink', '--line']];
  return Object.fromEntries(pairs.map(([one, other]) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return [`${one} on ${other}`, (high + 0.05) / (low + 0.05)];
  }));
}"""
