"""What the teacher and the students get: a table, a summary, and feedback pages.

All text that comes from a submission is data here: escaped in HTML, and in the table
never the beginning of a spreadsheet formula.
"""

import csv
import html
import io
from collections.abc import Iterable, Sequence

from nbformat import NotebookNode

from aiinfra.tools.grading.course import Result, Row
from aiinfra.tools.grading.exam import is_test

COLUMNS = ("student", "assignment", "question", "points", "max", "remark")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
REMARK_CHARACTERS = 300

STYLE = """\
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #8888; overflow-wrap: anywhere; }
td:nth-child(2) { white-space: nowrap; }
pre { overflow-x: auto; padding: .6rem; border-left: 3px solid #8888; margin: .3rem 0; }
pre.printed { border-left-style: dotted; }
pre.error { border-left-color: #d1495b; }
"""


def csv_text(results: dict[tuple[str, str], Result]) -> str:
    """The table of grades: one line per student, assignment and question."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    for (student, assignment), result in results.items():
        for row in result.rows:
            scored = "" if row.points is None else f"{row.points:g}"
            remark = " ".join(row.remark.split())[:REMARK_CHARACTERS]
            texts = (student, assignment, row.question)
            table.writerow(
                [*map(harmless, texts), scored, f"{row.max_points:g}", harmless(remark)]
            )
    return file.getvalue()


def harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def points(rows: Iterable[Row]) -> str:
    """The sum of the points: ``5 of 8``, and what is left to a person."""
    rows = list(rows)
    got = sum(row.points or 0 for row in rows)
    most = sum(row.max_points for row in rows)
    waiting = sum(row.points is None for row in rows)
    by_hand = f", {waiting} to be graded by a person" if waiting else ""
    return f"{got:g} of {most:g}{by_hand}"


def summary(results: dict[tuple[str, str], Result]) -> str:
    """For each question, how many students have all its points."""
    full: dict[tuple[str, str], int] = {}
    students: dict[str, int] = {}
    for (_, assignment), result in results.items():
        students[assignment] = students.get(assignment, 0) + 1
        for row in result.rows:
            key = (assignment, row.question)
            full[key] = full.get(key, 0) + (row.points == row.max_points)
    width = max((len(question) for _, question in full), default=0)
    lines = []
    for name, count in students.items():
        lines.append(f"\n{name}: students with all points, of {count}")
        lines += [
            f"  {question:<{width}}  {number:>4}"
            for (assignment, question), number in full.items()
            if assignment == name
        ]
    return "\n".join(lines)


def feedback(student: str, assignment: str, result: Result) -> str:
    """One student's page: points, remarks, and their cells with what these printed.

    The tests' text is not in it, so that it can be asked again next year.
    """
    title = html.escape(f"{assignment}: {points(result.rows)} points")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
            f"<h1>{title}</h1>\n<p>{html.escape(student)}</p>\n<table>",
            "<tr><th>Question</th><th>Points</th><th>Remark</th></tr>",
            *map(table_row, result.rows),
            "</table>",
            *cell_blocks(result.nb.cells if result.nb else ()),
            "</body>\n</html>\n",
        ]
    )


def table_row(row: Row) -> str:
    """A question in the page's table."""
    scored = f"{points([row])}" if row.points is not None else "–"
    return (
        f"<tr><td>{html.escape(row.question)}</td><td>{scored}</td>"
        f"<td>{html.escape(row.remark)}</td></tr>"
    )


def cell_blocks(cells: Sequence[NotebookNode]) -> list[str]:
    """The code that ran, and what it printed."""
    blocks = ["<h2>What ran</h2>"] if cells else []
    for cell in cells:
        if cell.cell_type != "code" or is_test(cell) or not cell.source.strip():
            continue
        blocks.append(f"<pre><code>{html.escape(cell.source)}</code></pre>")
        for output in cell.outputs:
            if output.output_type == "stream":
                text = html.escape(output.text)
                blocks.append(f'<pre class="printed">{text}</pre>')
            elif output.output_type == "error":
                text = html.escape(output.evalue)
                blocks.append(f'<pre class="error">{text}</pre>')
    return blocks
