"""The report page is well-formed and self-contained, and it escapes HTML in its text."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from pliant.core import InputError
from pliant.report import Plot, render_report, write_report

VOID = {"meta", "img", "br", "link", "input"}
RESULT = {
    "name": "circle",
    "paper": "Doe 2024",
    "status": "done",
    "seed": 7,
    "versions": {"pliant": "0.1.0"},
    "seconds": 1.5,
    "metrics": {
        "tip error": {"value": 0.00123456, "unit": "m", "paper": 0.0014},
        "steps": {"value": np.int64(200)},
    },
    "settings": {"dt": 0.02},
    "shows": "The tip follows a circle.",
}
PLOT = Plot(title="Error", x="t [s]", y="e [m]", series={"e": (np.arange(3.0), np.arange(3.0))})


class Outline(HTMLParser):
    """A parser that checks the order of closing tags and collects tags, sources and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.sources, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [
            value
            for name, value in attributes
            if name in ("src", "href", "srcset", "poster", "data")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def outline(**changes):
    page = Outline(render_report({**RESULT, **changes}, [PLOT]))
    assert page.open == []
    return page


def test_page_shows_all_fields_of_the_result():
    text = " ".join(outline().words)
    for word in (
        "circle",
        "Doe 2024",
        "done",
        "7",
        "0.1.0",
        "1.5",
        "tip error",
        "0.001235",
        "0.0014",
        "200",
        "dt",
        "0.02",
    ):
        assert word in text, word
    assert "The tip follows a circle." in text


@pytest.mark.parametrize(("name", "tag"), [("animation.mp4", "video"), ("animation.gif", "img")])
def test_page_is_self_contained(tmp_path, name, tag):
    (tmp_path / name).write_bytes(b"an animation")
    path = write_report(tmp_path, RESULT, [PLOT], media=[name], notes=["A note."])
    text = path.read_text()
    page = Outline(text)
    assert tag in page.tags
    assert base64.b64encode(b"an animation").decode() in text
    assert len(page.sources) == 2
    assert all(source.startswith("data:") for source in page.sources)
    assert not re.search(r"https?://|url\(|@import|<script|<link", text)
    assert "A note." in text


def test_html_in_text_is_escaped():
    bad = '<script>alert("x")</script>'
    changes = {
        "name": bad,
        "paper": bad,
        "status": bad,
        "shows": bad,
        "versions": {bad: bad},
        "settings": {bad: [bad, {bad: 1}]},
        "metrics": {bad: {"value": bad, "unit": bad, "paper": bad}},
    }
    page = outline(**changes)
    assert "script" not in page.tags
    assert bad in page.words
    hostile = Plot(title='"><script>', x=bad, y=bad, series={bad: (np.arange(2.0), np.arange(2.0))})
    assert "script" not in Outline(render_report(RESULT, [hostile], notes=[bad])).tags


def test_empty_fields_of_the_result_have_no_section():
    page = Outline(
        render_report({**RESULT, "metrics": {}, "settings": {}, "shows": "", "paper": None})
    )
    assert page.tags.count("section") == 1
    assert "Plots" not in page.words


def test_name_and_metrics_are_sufficient_for_a_page(tmp_path):
    path = write_report(tmp_path, {"name": "my reach", "metrics": {"miss": 0.00123456}}, [PLOT])
    page = Outline(path.read_text())
    assert page.open == []
    assert {"my reach", "miss", "0.001235", "Plots"} <= set(page.words)
    assert not {"paper", "seed", "seconds", "How it was made", "–"} & set(page.words)


def test_paper_column_requires_a_paper_value():
    assert "paper" in outline().words
    assert "paper" not in outline(metrics={"tip error": {"value": 1.0, "unit": "m"}}).words


def test_page_is_deterministic():
    assert render_report(RESULT, [PLOT]) == render_report(RESULT, [PLOT])


def test_missing_name_or_media_raises(tmp_path):
    with pytest.raises(InputError, match="The result has no name"):
        render_report({name: value for name, value in RESULT.items() if name != "name"})
    with pytest.raises(InputError, match="The metrics of the result are '3'"):
        render_report({"name": "reach", "metrics": 3})
    with pytest.raises(InputError, match=r"animation.mp4 does not exist"):
        write_report(tmp_path, RESULT, media=["animation.mp4"])
    with pytest.raises(InputError, match=r"animation.avi cannot be put"):
        write_report(tmp_path, RESULT, media=["animation.avi"])
    assert not (tmp_path / "report.html").exists()
