"""The backports entry is the machine's own entry with another suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from apt_backports import backports_entry

SECURITY = """\
Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main
"""
DISABLED = """\
Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
MAIN = """\
# a comment: not a field
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 key
 -----END PGP PUBLIC KEY BLOCK-----
"""


def apt(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        path = tmp_path / "sources.list" if name == "main" else tmp_path / "sources.list.d" / name.replace("_", ".")
        path.write_text(text)
    return tmp_path


def test_deb822_keeps_mirror_and_key_and_skips_what_does_not_fit(tmp_path):
    folder = apt(tmp_path, debian_sources="\n".join([SECURITY, DISABLED, MAIN]))
    name, entry = backports_entry(folder, "bookworm")
    assert name == "spade-backports.sources"
    assert entry == (
        "Types: deb\nUris: http://mirror.example/debian\nSuites: bookworm-backports\nComponents: main\nSigned-By: \n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n key\n -----END PGP PUBLIC KEY BLOCK-----\n"
    )


@pytest.mark.parametrize("options", ["", "[arch=amd64 signed-by=/k.gpg] "])
def test_one_line_keeps_options(tmp_path, options):
    text = f"# deb http://no.example bookworm main\ndeb-src http://m.example/d bookworm main\ndeb {options}http://m.example/d bookworm main non-free # x\n"
    name, entry = backports_entry(apt(tmp_path, main=text), "bookworm")
    assert (name, entry) == ("spade-backports.list", f"deb {options}http://m.example/d bookworm-backports main\n")


def test_nothing_fits(tmp_path):
    folder = apt(tmp_path, main="deb http://m.example/d trixie main\n", x_sources=SECURITY)
    assert backports_entry(folder, "bookworm") is None
