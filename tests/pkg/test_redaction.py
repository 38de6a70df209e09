"""Secrets never reach a log line, whatever field, nesting or exception they come in; what is no secret stays."""

from __future__ import annotations

import io
import json

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.redaction import BLOT, redacted
from spade_rl.telemetry import configure_logging, get_logger

PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----"


@pytest.fixture(autouse=True)
def _restored():
    yield
    structlog.reset_defaults()


def listening(monkeypatch):
    """Return what is logged from now on; within the test, since pytest puts its own standard error in place before it."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logging("DEBUG")
    return stream


@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"url": "postgresql+psycopg://spade:hunter2@db/spade"}, "hunter2"),
        ({"url": "postgresql://:hunter2@db/spade"}, "hunter2"),
        ({"error": "cannot connect to postgresql://u:hunter2@db:5432/x: refused"}, "hunter2"),
        ({"config": {"memory": {"url": "mysql://u:hunter2@db"}}}, "hunter2"),
        ({"hf_token": "abcdef"}, "abcdef"),
        ({"password": "hunter2"}, "hunter2"),
        ({"environment": [{"AWS_SECRET_ACCESS_KEY": "hunter2"}]}, "hunter2"),
        ({"key": PEM}, "MHcCAQ"),
        ({"key": PEM[:40]}, "MHcC"),
        ({"header": "authorization: Bearer eyJhbGciOi.J9"}, "eyJhbGciOi"),
        ({"note": "with hf_AbCdEfGhIjKlMnOpQr"}, "AbCdEfGh"),
        ({"dsn": "host=db password=hunter2 user=u"}, "hunter2"),
    ],
)
def test_a_secret_is_not_in_the_line(monkeypatch, fields, secret):
    lines = listening(monkeypatch)
    get_logger("part").warning("said", **fields)
    assert secret not in lines.getvalue()
    assert json.loads(lines.getvalue())["event"] == "said"
    assert BLOT in lines.getvalue()


def test_nor_in_the_message_or_the_exception(monkeypatch):
    lines = listening(monkeypatch)
    log = get_logger("part")
    log.info("opening postgresql://u:hunter2@db")
    try:
        raise ValueError("postgresql://u:hunter2@db does not answer")
    except ValueError:
        log.error("failed", exc_info=True)
    assert "hunter2" not in lines.getvalue()
    assert "ValueError" in lines.getvalue()


def test_what_is_no_secret_stays():
    fields = {
        "max_tokens": 5,
        "tokens_per_second": 7.5,
        "token_ids": [1, 2],
        "url": "unix:/run/spade/x",
        "at": "http://a:90/b@c",
    }
    assert redacted(fields) == fields


@given(st.text(st.characters(categories=["L", "N"]), min_size=6), st.text(st.characters(categories=["L"]), min_size=1))
def test_no_password_of_a_url_survives(password, user):
    assert f":{password}@" not in redacted(f"before postgresql://{user}:{password}@host/db after")
