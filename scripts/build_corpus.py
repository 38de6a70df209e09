"""Build the sample corpus from Debian's documentation packages.

    apt-get install sqlite3-doc postgresql-doc-15
    python scripts/build_corpus.py /usr/share/doc

A document is a passage of 60 to 400 words made of consecutive paragraphs of one page; a page gives at most
three. A page's place (training or held out) depends only on its name, so no page is in both files. The
result depends only on the packages' contents: the same packages give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path

MIN_WORDS, MAX_WORDS = 60, 400
PASSAGES_PER_PAGE = 3
TRAIN_PER_COLLECTION, HELD_OUT_PER_COLLECTION = 240, 32
HELD_OUT_PAGES = 0.12  # share of the pages that belong to the held-out file

COLLECTIONS = (
    ("sqlite", "sqlite3", "SQLite documentation", "public domain"),
    ("postgresql", "postgresql-doc-15/html", "PostgreSQL 15 documentation", "PostgreSQL"),
)
SKIPPED_PAGES = re.compile(
    r"^(doc_|toc|keyword|crew|copyright|consortium|pressrelease|famous|cves|changes|oldnews|release|.*index$|biblio|legal|acronyms|features|errcodes)"
)
ASCII = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u00a0": " ",
        "\u2026": "...",
    }
)


@dataclass(frozen=True, slots=True)
class Document:
    """One line of the corpus file."""

    id: str
    title: str
    text: str
    source: str
    license: str


class Paragraphs(HTMLParser):
    """Collect a page's title and the text of its ``<p>`` elements, without what stands in code blocks."""

    SILENT = frozenset({"pre", "script", "style", "table", "svg"})
    BREAKS = frozenset({"p", "h1", "h2", "h3", "h4", "ul", "ol", "li", "dl", "dt", "dd", "div", "blockquote"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.paragraphs: list[str] = []
        self._in_title = False
        self._in_paragraph = False
        self._silent = 0
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's signature
        """Begin a paragraph, or a part that is left out."""
        if tag in self.SILENT:
            self._close()
            self._silent += 1
        elif tag in self.BREAKS:
            self._close()
            self._in_paragraph = tag == "p"
        self._in_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        """Close what the tag closes."""
        """End a paragraph, or a part that is left out."""
        if tag in self.SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in self.BREAKS:
            self._close()
        self._in_title = False

    def handle_data(self, data: str) -> None:
        """Keep the text of titles and paragraphs."""
        """Collect text."""
        if self._in_title:
            self.title += data
        elif self._in_paragraph and not self._silent:
            self._text.append(data)

    def _close(self) -> None:
        text = " ".join("".join(self._text).translate(ASCII).split())
        if text:
            self.paragraphs.append(text)
        self._text = []
        self._in_paragraph = False


def is_prose(paragraph: str) -> bool:
    """Tell running text from tables, code and lists of names: mostly plain words, closed by a full stop."""
    words = paragraph.split()
    plain = sum(bool(re.fullmatch(r"[(\"']?[A-Za-z][a-z'-]*[,.;:)\"'!?]*", word)) for word in words)
    return len(words) >= 12 and paragraph.isascii() and paragraph[-1] in ".:?!" and plain >= 0.8 * len(words)


def passages(paragraphs: list[str]) -> Iterator[str]:
    """Yield consecutive prose paragraphs, joined up to the size of a document."""
    kept: list[str] = []
    for paragraph in [*filter(is_prose, paragraphs), ""]:
        size = sum(len(text.split()) for text in kept)
        if kept and (not paragraph or size >= 150 or size + len(paragraph.split()) > MAX_WORDS):
            if MIN_WORDS <= size <= MAX_WORDS:
                yield " ".join(kept)
            kept = []
        kept.append(paragraph)


def page_rank(name: str) -> float:
    """Return a page's stable place in [0, 1)."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big") / 2**56


def read_collection(
    root: Path, name: str, folder: str, source: str, license_name: str
) -> Iterator[tuple[float, Document]]:
    """Yield a collection's documents, each with its page's rank."""
    pages = sorted((root / folder).rglob("*.html"))
    if not pages:
        raise SystemExit(
            f"no pages in {root / folder}: install the package that holds them (see the head of this script)"
        )
    for page in pages:
        if SKIPPED_PAGES.match(page.stem):
            continue
        parser = Paragraphs()
        parser.feed(page.read_text(encoding="utf-8", errors="replace"))
        slug = page.relative_to(root / folder).with_suffix("").as_posix()
        title = " ".join(parser.title.translate(ASCII).split()) or slug
        for index, text in enumerate(passages(parser.paragraphs)):
            if index == PASSAGES_PER_PAGE:
                break
            yield page_rank(f"{name}/{slug}"), Document(f"{name}/{slug}#{index}", title, text, source, license_name)


def write(path: Path, documents: list[Document]) -> None:
    """Write a gzipped JSONL file whose bytes depend on the documents alone; the old file is replaced at once."""
    lines = "".join(json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents)
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_bytes(gzip.compress(lines.encode(), compresslevel=9, mtime=0))
    temporary.replace(path)


def main(arguments: list[str]) -> None:
    """Read the packages' folder and write both files."""
    parser = argparse.ArgumentParser(description="Build the sample corpus.")
    parser.add_argument("folder", type=Path, help="the folder that holds sqlite3/ and postgresql-doc-15/")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "pkg/spade_rl/data/corpus")
    options = parser.parse_args(arguments)
    train: list[Document] = []
    held_out: list[Document] = []
    for collection in COLLECTIONS:
        ranked = sorted(read_collection(options.folder, *collection), key=lambda pair: (pair[0], pair[1].id))
        held_out += [document for rank, document in ranked if rank < HELD_OUT_PAGES][:HELD_OUT_PER_COLLECTION]
        train += [document for rank, document in ranked if rank >= HELD_OUT_PAGES][:TRAIN_PER_COLLECTION]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, documents in (("train", train), ("heldout", held_out)):
        write(options.out / f"{name}.jsonl.gz", sorted(documents, key=lambda document: document.id))
        print(f"{name}: {len(documents)} documents, {sum(len(d.text.split()) for d in documents)} words")


if __name__ == "__main__":
    main(sys.argv[1:])
