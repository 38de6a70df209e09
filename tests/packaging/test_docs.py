"""The documentation says what the code does, where that can be checked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("script", ["config_reference.py", "metrics_reference.py"])
def test_the_generated_parts_are_current(script):
    command = [sys.executable, ROOT / "scripts" / script, "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/overview.md"])
def test_the_first_mention_names_the_paper(page):
    text = (ROOT / page).read_text()
    assert "2608.19197" in text
    assert "independent implementation" in text
    assert text.index("independent implementation") < 1500


def test_make_targets_that_the_pages_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text())}
    assert named
    assert named - targets == set()
