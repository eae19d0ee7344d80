"""The result as one page that needs nothing else: Markdown with tables, or HTML with plots as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from outrider.bench import chart, words
from outrider.bench.figures import Row, Spread
from outrider.bench.result import PLAIN, Result

TITLE = "Speculative decoding, measured"
SERIES = 6
BLOCKS = "▏▎▍▌▋▊▉█"
CELLS = 40


def markdown(result: Result) -> str:
    """The page as Markdown: the tables, and the speed-ups as bars of block characters."""
    lines = [f"# {TITLE}", "", words.verdict(result), ""]
    lines += [f"- **{_cell(trouble)}**" for trouble in words.troubles(result)]
    lines += ["", *_md_table(words.HEAD, [words.cells(row) for row in result.rows])]
    compared = _compared(result)
    if compared:
        lines += ["", "## Speed-up over plain decoding", "", "```text", *_text_bars(compared), "```"]
    lines += ["", "## What the columns mean", "", *(f"- {text}" for text in words.definitions(result))]
    lines += ["", "## How it was measured", "", *_md_table(("what", "value"), _facts(result))]
    return "\n".join(_single_blanks(lines)) + "\n"


def html(result: Result) -> str:
    """The page as HTML, in light and dark."""
    troubles = "".join(f"<li>{escape(trouble)}</li>" for trouble in words.troubles(result))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{TITLE}</h1>\n"
        f'<p class="verdict">{escape(words.verdict(result))}</p>\n'
        + (f'<ul class="troubles">{troubles}</ul>\n' if troubles else "")
        + "".join(_figures(result))
        + f"<h2>All figures</h2>\n{_html_table(words.HEAD, [words.cells(row) for row in result.rows])}\n"
        + "".join(f'<p class="note">{escape(text)}</p>\n' for text in words.definitions(result))
        + f"<h2>How it was measured</h2>\n{_html_table(('what', 'value'), _facts(result), 'facts')}\n"
        "</main>\n</body>\n</html>\n"
    )


def _figures(result: Result) -> Iterator[str]:
    tasks = [(task, result.of_task(task)) for task in result.tasks]
    speedups = [
        (task, _bars(result, [row for row in rows if row.drafter != PLAIN], "speedup", 2)) for task, rows in tasks
    ]
    speeds = [(task, _bars(result, rows, "tokens_per_s", 1)) for task, rows in tasks]
    for title, groups, line in (
        ("Speed-up over plain decoding", speedups, 1.0),
        ("Tokens per second", speeds, None),
        ("Accepted, by position in the draft, in percent", list(_positions(result)), None),
    ):
        drawn = [(label, bars) for label, bars in groups if bars]
        if drawn:
            legend = "".join(_legend(result, {bar.series for _, bars in drawn for bar in bars}))
            figure = chart.bars(title, drawn, line)
            yield f'<h2>{title}</h2>\n<p class="legend">{legend}</p>\n<figure>{figure}</figure>\n'


def _legend(result: Result, drawn: set[int]) -> Iterator[str]:
    for number, name in enumerate(result.drafters):
        if number % SERIES in drawn:
            yield f'<span><i class="s{number % SERIES}"></i>{escape(name)}</span>'


def _bars(result: Result, rows: Sequence[Row], figure: str, digits: int) -> list[chart.Bar]:
    found = []
    for row in rows:
        spread: Spread | None = getattr(row, figure)
        if spread is not None:
            series = result.drafters.index(row.drafter) % SERIES
            found.append(chart.Bar(series, spread.middle, spread.low, spread.high, spread.text(digits)))
    return found


def _positions(result: Result) -> Iterator[tuple[str, list[chart.Bar]]]:
    """Of all tasks together: a group for each draft position."""
    shares = {row.drafter: row.acceptance_per_position or () for row in result.overall}
    for position in range(max(map(len, shares.values()), default=0)):
        bars = []
        for series, drafter in enumerate(result.drafters):
            if position < len(shares[drafter]):
                percent = 100 * shares[drafter][position]
                bars.append(chart.Bar(series % SERIES, percent, percent, percent, f"{percent:.0f} %"))
        yield f"position {position + 1}", bars


def _compared(result: Result) -> list[tuple[Row, Spread]]:
    return [(row, row.speedup) for row in result.rows if row.drafter != PLAIN and row.speedup is not None]


def _text_bars(compared: Sequence[tuple[Row, Spread]]) -> Iterator[str]:
    most = max([spread.middle for _, spread in compared] + [1.0])
    names = [f"{row.task} {row.drafter}" for row, _ in compared]
    width = max(map(len, names))
    for name, (_, spread) in zip(names, compared, strict=True):
        eighths = round(spread.middle / most * CELLS * 8)
        rest = BLOCKS[eighths % 8 - 1] if eighths % 8 else ""
        yield f"{name:<{width}}  {BLOCKS[-1] * (eighths // 8) + rest:<{CELLS}}  {spread.text(2)}"


def _facts(result: Result) -> list[list[str]]:
    facts = {**result.settings, **result.machine}
    facts |= {"date": result.date, "command": result.command, "version": result.version}
    return [[name, "-" if value is None else str(value)] for name, value in facts.items()]


def _md_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    ruler = ["---"] * len(head)
    return [f"| {' | '.join(map(_cell, row))} |" for row in (head, ruler, *rows)]


def _cell(text: str) -> str:
    # Whatever a question or a server is called must not end a cell or become markup.
    return "".join(f"\\{char}" if char in "\\|<>*_`[]" else char for char in text)


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "figures") -> str:
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><tr>{heads}</tr>{body}</table></div>'


def _single_blanks(lines: Sequence[str]) -> list[str]:
    """Without a blank line behind another, which empty parts leave."""
    return [line for before, line in zip(["", *lines], lines, strict=False) if line or before]


_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --ink: #1d2126; --soft: #626b76; --rule: #dfe2e6; --warn: #b3261e;
  --s0: #8a939e; --s1: #2468c9; --s2: #d9641e; --s3: #14866d; --s4: #8d4fc4; --s5: #b58a00; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --ink: #e7e9ec; --soft: #9aa4b0; --rule: #2f353d;
  --warn: #ff8a80; --s0: #7d8794; --s1: #5b9bf5; --s2: #f28a4b; --s3: #3dbf9f; --s4: #b98aec; --s5: #dcb545; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
.verdict { font-size: 1.1rem; margin: 0; } .note { color: var(--soft); max-width: 75ch; margin: .6rem 0; }
.troubles { color: var(--warn); font-weight: 600; }
.legend { margin: 0 0 .4rem; color: var(--soft); } .legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
i.s0 { background: var(--s0); } i.s1 { background: var(--s1); } i.s2 { background: var(--s2); }
i.s3 { background: var(--s3); } i.s4 { background: var(--s4); } i.s5 { background: var(--s5); }
figure { margin: 0; max-width: 820px; } svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.value { paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
.label { text-anchor: end; } svg .tick { text-anchor: middle; fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--rule); } .mark { stroke: var(--ink); stroke-dasharray: 4 3; }
.whisker { stroke: var(--ink); stroke-width: 1.5; fill: none; }
rect.s0 { fill: var(--s0); } rect.s1 { fill: var(--s1); } rect.s2 { fill: var(--s2); }
rect.s3 { fill: var(--s3); } rect.s4 { fill: var(--s4); } rect.s5 { fill: var(--s5); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
.figures td:nth-child(2), .figures th:nth-child(2), .facts td, .facts th { text-align: left; }
.facts td { white-space: normal; overflow-wrap: anywhere; }
"""
