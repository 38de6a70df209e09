"""Logs go where standard error goes."""

import io
import json

import pytest
import structlog

from spade_rl.telemetry import configure_logging, get_logger


@pytest.fixture(autouse=True)
def _restored():
    yield
    structlog.reset_defaults()


def test_a_line_is_json_and_follows_standard_error(monkeypatch):
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure_logging("INFO")
    log = get_logger("part")
    log.info("said", count=3)
    log.debug("unsaid")
    first_text = first.getvalue()
    first.close()
    monkeypatch.setattr("sys.stderr", second)
    log.warning("again")
    assert json.loads(first_text) | {"timestamp": ""} == {
        "component": "part",
        "count": 3,
        "event": "said",
        "level": "info",
        "timestamp": "",
    }
    assert json.loads(second.getvalue())["event"] == "again"
