"""A grid's pivot tables as CSV: raw values in the metric's own unit, one line a table's row."""

import csv
import io

from gradscope.analysis.grid_report import GridReport


def render(report: GridReport) -> str:
    """Return the pivot tables, losses at equal budgets among them, below one another under one head.

    A cell without a value holds what became of it, such as `oom`; one that the grid does not have is empty.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    tables = [*report.pivots, *(one.table for one in report.equal)]
    if tables:
        writer.writerow(["metric", *tables[0].down, *(tables[0].heads if tables[0].across else ["value"])])
    for table in tables:
        for labels, entries in zip(table.labels, table.entries, strict=True):
            values = [
                "" if entry is None else entry.state if entry.figure.value is None else repr(entry.figure.value)
                for entry in entries
            ]
            writer.writerow([table.metric, *labels, *values])
    return file.getvalue()
