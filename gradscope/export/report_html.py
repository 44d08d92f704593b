"""A grid's report as one page: text, tables and charts, everything it needs in the file, nothing fetched.

Charts are drawn by plotly.js (MIT), which the `plotly` package ships. All foreign text is escaped, and the page forbids
itself the network.
"""

import html
import json
from collections.abc import Mapping
from pathlib import Path

from gradscope import __version__
from gradscope.analysis.curves import Curve
from gradscope.analysis.grid_report import GridReport
from gradscope.core.target_file import written_beside
from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.export.report_page import page_data
from gradscope.export.report_tables import INDENT, Section, Table, heading, sections

PAGE = Path(__file__).with_name("page")

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""Of the page: its own scripts and styles, and no request to anywhere."""

CHARTS = {
    "heat": ("heat maps", "Colours rank the cells of one model, dark is best; a star marks the best."),
    "curves": ("loss against its cost", "Click a name in the legend to hide a curve, twice to see it alone."),
    "front": (
        "Pareto front, drawn",
        "Filled marks are on the front: nothing else of the model is as good in all respects.",
    ),
    "memory": (
        "what the peak is made of",
        "The line marks the allocator's peak. Parts are largest at different moments, so they may add up to more; line "
        "searches peak outside of backward, where there are none of them.",
    ),
}
"""Charts, in their order, with a sentence each."""


def write_page(report: GridReport, curves: Mapping[str, Curve], target: Path, *, replace: bool = True) -> Path:
    """Write a report's page; a reader sees the old file or the new one.

    Args:
        report: What to tell.
        curves: Of its runs, by cell.
        target: Where to.
        replace: Whether a file that is there may be replaced.

    Raises:
        GradscopeError: It may not, or the plotting library is not installed.
        OSError: The file cannot be written.
    """
    content = render(report, curves).encode()
    with written_beside(target, replace=replace) as file:
        file.write(content)
    return target


def render(report: GridReport, curves: Mapping[str, Curve]) -> str:
    """Return a report's page."""
    first, *others = heading(report)
    parts = sections(report)
    lead = [part for part in parts if part.code in ("choose", "claims") or part.code.startswith("effect-memory")]
    body = [f"<h1>{_escaped(first)}</h1>", *(f"<p>{_escaped(line)}</p>" for line in others)]
    body += map(_section, lead)
    body += [_chart(name, title, note) for name, (title, note) in CHARTS.items()]
    body += [_section(part) for part in parts if part not in lead]
    body.append(f"<footer>gradscope {_escaped(__version__)}</footer>")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_escaped(report.name)}: gradscope report</title>",
            f"<style>\n{_file('report.css')}</style>",
            "</head><body>",
            *body,
            f"<script>{_library()}</script>",
            f'<script type="application/json" id="data">{_embedded(page_data(report, curves))}</script>',
            f"<script>\n{_file('report.js')}</script>",
            "</body></html>",
            "",
        ]
    )


def _file(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise GradscopeError(
            "a page needs the plotting library plotly, which is not installed here",
            "install plotly, or print the report with --markdown",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    text: str = get_plotlyjs()
    return text


def _embedded(data: object) -> str:
    """Return data as JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _section(section: Section) -> str:
    lines = [f'<section id="{_escaped(section.code)}"><h2>{_escaped(section.title)}</h2>']
    if section.table is not None:
        lines.append(_table(section.table, verdicts=section.code == "claims"))
    lines += [f'<p class="note">{_escaped(note)}</p>' for note in section.notes]
    return "\n".join([*lines, "</section>"])


def _table(table: Table, *, verdicts: bool) -> str:
    right = range(table.left, len(table.head) - table.tail)
    head = "".join(_cell("th", text, place in right) for place, text in enumerate(table.head))
    lines = [f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>']
    for row in table.rows:
        cells = "".join(_cell("td", text, place in right) for place, text in enumerate(row))
        kind = f' class="{_escaped(row[0])}"' if verdicts else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _cell(tag: str, text: str, right: bool) -> str:
    kinds = ["number"] * right + ["below"] * text.startswith(INDENT)
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<{tag}{kind}>{_escaped(text.strip())}</{tag}>"


def _chart(name: str, title: str, note: str) -> str:
    return (
        f'<section id="{name}" class="chart"><h2>{title}</h2>'
        f'<p class="note">{note}</p><div class="choice"></div><div class="plots"></div></section>'
    )
