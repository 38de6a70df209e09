"""Untrusted text made safe to look at.

Sources, observations and replies are written by a model. In a terminal a control character could move the cursor
or recolour the screen, and a direction override could make a source read otherwise than it runs; here they become
visible escapes. Markup is escaped where it is written, by the template or by Rich, not here.
"""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, marks and overrides of direction, line separators, and lone surrogates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible(text: str) -> str:
    """Return ``text`` with every character that acts instead of showing written as an escape."""
    return _HIDDEN.sub(_escape, text.replace("\r\n", "\n"))


def clipped(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of visible ``text``; what is cut off is counted."""
    shown = visible(text)
    return shown if len(shown) <= limit else f"{shown[:limit]}\n… {len(shown) - limit:,} more characters"


def short_digest(digest: str) -> str:
    """Return the beginning of a digest, long enough to tell the environments of a run apart."""
    return digest[:12]
