"""The report page: one self-contained HTML file with plots and animation."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from pliant.core import InputError, quoted
from pliant.report.figures import Heatmap, Plot, heatmap_svg, plot_svg
from pliant.report.template import CSS, PAGE
from pliant.store import write_atomic

MEDIA = {
    ".gif": "image/gif",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".mp4": "video/mp4",
}
GOOD = ("ok", "done", "converged", "solved", "reached")


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table of a page: rows of texts and numbers under named columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def write_report(
    folder: str | Path,
    result: Mapping[str, Any],
    plots: Sequence[Plot] = (),
    *,
    media: Sequence[str] = (),
    notes: Sequence[str] = (),
    tables: Sequence[PageTable] = (),
    heatmaps: Sequence[Heatmap] = (),
) -> Path:
    """Write `folder`/report.html and return its path. `media` are names of animations and pictures
    in the folder; `notes` are paragraphs, `tables` and `heatmaps` sections of the page.

    `result` needs a `name`. It may have `status`, `shows` (a description), `paper`, `metrics`,
    `settings` (name to value), `seed`, `seconds` and `versions`, as in result.json. A metric is a
    number or {"value": ..., "unit": ..., "paper": ...}.
    """
    path = Path(folder) / "report.html"
    write_atomic(
        path,
        render_report(
            result,
            plots,
            media=[Path(folder) / name for name in media],
            notes=notes,
            tables=tables,
            heatmaps=heatmaps,
        ),
    )
    return path


def render_report(
    result: Mapping[str, Any],
    plots: Sequence[Plot] = (),
    *,
    media: Sequence[Path] = (),
    notes: Sequence[str] = (),
    tables: Sequence[PageTable] = (),
    heatmaps: Sequence[Heatmap] = (),
) -> str:
    """Return the page as HTML."""
    _check(result)
    pictures = "".join([*map(_heatmap, heatmaps), *map(_plot, plots)])
    sections = [
        _section("Motion", "".join(map(_media_figure, media))),
        *(_section(table.title, _table(table)) for table in tables if table.rows),
        _section("Results", metrics_table(result.get("metrics") or {})),
        _section("Plots", f'<div class="plots">{pictures}</div>' if pictures else ""),
        _section("Settings", _pairs(result.get("settings") or {})),
        _section("How it was made", _pairs(_provenance(result))),
    ]
    return PAGE.format(
        title=_text(result["name"]), css=CSS, head=_head(result, notes), body="".join(sections)
    )


def _head(result: Mapping[str, Any], notes: Sequence[str]) -> str:
    paper = f'<p class="paper">{_text(result["paper"])}</p>' if result.get("paper") else ""
    shows = f'<p class="shows">{_text(result["shows"])}</p>' if result.get("shows") else ""
    status = str(result.get("status") or "")
    badge_class = "good" if status.split(" ")[0].lower().rstrip(":;.,") in GOOD else "bad"
    badge = f'<p class="status {badge_class}">{_text(status)}</p>' if status else ""
    return f"<h1>{_text(result['name'])}</h1>{paper}{shows}{badge}" + "".join(
        f"<p>{_text(note)}</p>" for note in notes
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _check(result: Any) -> None:
    if not isinstance(result, Mapping) or not result.get("name"):
        raise InputError('The result has no name. Give a dict such as {"name": "reach"}.')
    for key in ("metrics", "settings"):
        if not isinstance(result.get(key) or {}, Mapping):
            raise InputError(
                f"The {key} of the result are {quoted(result[key])}. Give a dict by name."
            )


def metrics_table(metrics: Mapping[str, Any]) -> str:
    """Return metrics as an HTML table: name to a number, or to {"value", "unit", "paper"}."""
    if not metrics:
        return ""
    entries = {
        name: entry if isinstance(entry, Mapping) else {"value": entry}
        for name, entry in metrics.items()
    }
    compared = any(entry.get("paper") is not None for entry in entries.values())
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td '
        f'class="number">{_text(entry.get("value"))}</td><td>{_text(entry.get("unit") or "")}</td>'
        + (f'<td class="number">{_text(entry.get("paper"))}</td></tr>' if compared else "</tr>")
        for name, entry in entries.items()
    )
    head = '<tr><th>metric</th><th class="number">here</th><th>unit</th>' + (
        '<th class="number">paper</th></tr>' if compared else "</tr>"
    )
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _pairs(pairs: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td></tr>'
        for name, value in pairs.items()
    )
    return (
        f'<div class="wide"><table class="pairs"><tbody>{rows}</tbody></table></div>'
        if rows
        else ""
    )


def _provenance(result: Mapping[str, Any]) -> dict[str, Any]:
    versions = result.get("versions") or {}
    named = versions if isinstance(versions, Mapping) else {"versions": versions}
    return {key: result[key] for key in ("seed", "seconds") if key in result} | dict(named)


def _table(table: PageTable) -> str:
    """Return a table as HTML; the first column has the names of the rows."""
    head = "".join(f"<th>{_text(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def _cell(value: Any) -> str:
    return f"<td>{_text(value)}</td>"


def _heatmap(heatmap: Heatmap) -> str:
    uri = _data_uri("image/svg+xml", heatmap_svg(heatmap))
    return f'<figure class="plot"><img alt="{_text(heatmap.title)}" src="{uri}"></figure>'


def _plot(plot: Plot) -> str:
    uri = _data_uri("image/svg+xml", plot_svg(plot, size=(5.6, 3.3)))
    return f'<figure class="plot"><img alt="{_text(plot.title)}" src="{uri}"></figure>'


def _media_figure(path: Path) -> str:
    kind = MEDIA.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} cannot be put on the page. Use one of {', '.join(MEDIA)}.")
    if not path.is_file():
        raise InputError(
            f"{path} does not exist. Write the animation or picture before the report."
        )
    uri = _data_uri(kind, path.read_bytes())
    if kind.startswith("video"):
        return (
            f'<figure><video controls autoplay loop muted playsinline src="{uri}"></video></figure>'
        )
    return f'<figure><img alt="{_text(path.stem)}" src="{uri}"></figure>'


def _data_uri(kind: str, blob: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(blob).decode()}"


def _text(value: Any) -> str:
    """Return a value as escaped HTML: numbers with four digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{escape(str(name))} = {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(_text(entry) for entry in value)
    return escape(str(value))
