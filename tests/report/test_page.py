from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from spade_rl.errors import ConfigurationError
from spade_rl.report import write_report

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags, identifiers and links of a page; ``open_tags`` is empty if every element was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open_tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in VOID:
            self.open_tags.append(tag)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag


def _page(run: Any) -> tuple[str, Page]:
    path = write_report(run.run_dir)
    assert path == run.run_dir / "report.html"
    text = path.read_text()
    page = Page(text)
    assert page.open_tags == []
    return text, page


def test_a_whole_run_is_shown(finished_run: Any) -> None:
    text, page = _page(finished_run)
    for title in ("Valid share", "Regret", "Difficulty", "Win rates", "Learnable share", "Designer reward", "Diversity", "Tokens", "Seconds", "By family", "By level"):  # fmt: skip
        assert f"<h3>{title}</h3>" in text
    assert "20.0%" in text
    assert "45.0%" in text
    assert "+25.0" in text
    assert "document-7" in text
    assert "it loses" in text
    assert text.count('class="pair"') == 10
    assert "Weaker isolation" not in text
    assert page.tags.count("svg") >= 12


def test_a_long_lineage_is_shortened(make_run: Callable[..., Any]) -> None:
    run = make_run()
    run.start()
    for number in range(0, 24, 2):
        run.cycle(number)
    text, _ = _page(run)
    assert "generations</small>" in text


def test_the_page_needs_no_network_and_runs_no_script(finished_run: Any) -> None:
    text, page = _page(finished_run)
    assert "default-src 'none'" in text
    assert not {"script", "iframe", "object", "embed", "link", "img", "form"} & set(page.tags)
    assert page.handlers == []
    assert all(link.startswith("#") for link in page.links)


def test_what_a_model_wrote_is_escaped(finished_run: Any) -> None:
    text, _ = _page(finished_run)
    assert "<script" not in text
    assert "&lt;script&gt;alert" in text
    assert "<b>plums" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m\\u202e" in text


def test_every_link_leads_somewhere(finished_run: Any) -> None:
    _, page = _page(finished_run)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


@pytest.mark.parametrize("isolation", ["process", "bubblewrap"])
def test_weaker_isolation_is_shouted(make_run: Callable[..., Any], isolation: str) -> None:
    run = make_run()
    run.start(isolation=isolation)
    text, _ = _page(run)
    assert f"Weaker isolation: {isolation}" in text
    assert text.index("Weaker isolation") < text.index('id="held-out"')


def test_a_run_without_a_cycle_has_a_report(make_run: Callable[..., Any]) -> None:
    run = make_run()
    run.start()
    text, _ = _page(run)
    assert "No cycle was finished." in text
    assert "unfinished" in text


def test_a_run_that_recorded_nothing_has_a_report(make_run: Callable[..., Any]) -> None:
    run = make_run()
    run.start()
    (run.run_dir / "memory.sqlite").unlink()
    run.event("run_failed", error="engine: the weights cannot be read")
    text, _ = _page(run)
    assert "The run failed" in text
    assert "the weights cannot be read" in text


def test_one_cycle_and_one_evaluation(make_run: Callable[..., Any]) -> None:
    run = make_run()
    run.start()
    run.evaluation("before", 0.2)
    run.cycle(0)
    text, _ = _page(run)
    assert "not measured" in text
    assert "points gained" not in text


def test_writing_again_replaces_the_page_and_leaves_nothing_else(finished_run: Any) -> None:
    before = write_report(finished_run.run_dir).read_text()
    again = write_report(finished_run.run_dir).read_text()
    assert before == again
    assert [path.name for path in finished_run.run_dir.glob("*.html")] == ["report.html"]
    assert not list(finished_run.run_dir.glob(".report-*"))


def test_a_page_that_cannot_be_written_is_named_and_leaves_nothing(finished_run: Any) -> None:
    (finished_run.run_dir / "report.html").mkdir()
    with pytest.raises(ConfigurationError, match=r"report.html: Is a directory.*spade report"):
        write_report(finished_run.run_dir)
    assert [path.name for path in finished_run.run_dir.glob("*report*")] == ["report.html"]


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="folder of a run"):
        write_report(tmp_path)
