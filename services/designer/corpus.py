"""Reading a corpus of documents from local files: JSONL, JSONL.gz, Parquet, or a folder of them.

Opening reads every document once: a line that is no document is found before a run starts, and the content gives the
corpus its fingerprint. What stays in memory is one offset a document. Compressed and columnar files have no
random access, so their documents are copied to a nameless file that vanishes with the process.

A record's text stands in ``text`` or else ``orig_doc`` (or the configured field); its identity is ``id`` or else a
digest of the text; ``title`` is kept, everything else is metadata that no prompt needs.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from spade_rl.errors import ConfigurationError

TEXT_FIELDS = ("text", "orig_doc")
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
MAX_ID, MAX_TITLE = 512, 1024


@dataclass(frozen=True, slots=True)
class Document:
    """A document that an environment may be grounded on."""

    id: str
    title: str
    text: str


def as_document(record: Any, text_field: str | None, where: str) -> Document:
    """Return the document of a record, or raise ConfigurationError that says ``where`` and what is wrong."""
    if not isinstance(record, dict):
        raise ConfigurationError(f"{where} is not a JSON object with a text: {str(record)[:80]!r}")
    fields = (text_field,) if text_field else TEXT_FIELDS
    field = next((name for name in fields if record.get(name) is not None), None)
    if field is None:
        raise ConfigurationError(
            f"{where} has no field {' or '.join(fields)} (it has {', '.join(map(str, record)) or 'none'}): set grounding.text_field"
        )
    text = record[field]
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(
            f"{where} has no text in {field!r}: it must be a string with words in it; remove it otherwise"
        )
    # Unpaired surrogates, which JSON can spell, are in no encoding.
    text = text.encode("utf-8", "replace").decode()
    identity = record.get("id")
    named = isinstance(identity, str | int) and 0 < len(str(identity)) <= MAX_ID
    title = record.get("title")
    return Document(
        id=str(identity) if named else hashlib.sha256(text.encode()).hexdigest()[:32],
        title=title[:MAX_TITLE] if isinstance(title, str) else "",
        text=text,
    )


def corpus_files(path: Path) -> list[Path]:
    """Return the files of a corpus in the order of their names."""
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.is_file() and f.name.endswith(SUFFIXES))
        if not files:
            raise ConfigurationError(f"grounding.corpus {path} holds no {', '.join(SUFFIXES)} file")
        return files
    if not path.exists():
        raise ConfigurationError(f"grounding.corpus {path} does not exist: name `sample`, a file, a folder or hf:NAME")
    if not path.name.endswith(SUFFIXES):
        raise ConfigurationError(f"grounding.corpus {path} must end in {', '.join(SUFFIXES)}")
    return [path]


class FileCorpus:
    """The documents of local files, by number; the same files give the same numbers. Close it after use."""

    def __init__(self, path: Path, *, text_field: str | None, scratch: Path | None) -> None:
        self._text_field = text_field
        self._files: list[IO[bytes]] = []
        self._file_of, self._offset_of = array("L"), array("Q")
        digest = hashlib.blake2b(digest_size=16)
        try:
            for file in corpus_files(path):
                self._index(file, digest, scratch)
        except OSError as error:
            self.close()
            raise ConfigurationError(f"cannot read the corpus {path}: {error}") from error
        except ConfigurationError:
            self.close()
            raise
        if not self._offset_of:
            self.close()
            raise ConfigurationError(f"grounding.corpus {path} is empty: it must hold at least one document")
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._offset_of)

    def __getitem__(self, number: int) -> Document:
        file = self._files[self._file_of[number]]
        file.seek(self._offset_of[number])
        where = f"document {number} of the corpus (it was another when the run started)"
        return as_document(_parsed(file.readline(), where), self._text_field, where)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()

    def _index(self, path: Path, digest: Any, scratch: Path | None) -> None:
        """Note where each document of a file begins, in the file itself or in a copy."""
        in_place = path.name.endswith(".jsonl")
        file: IO[bytes] = path.open("rb") if in_place else tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115
        self._files.append(file)
        for offset, line, where in _lines(file, path) if in_place else _copied(_records(path), file):
            document = as_document(line, self._text_field, where)
            self._file_of.append(len(self._files) - 1)
            self._offset_of.append(offset)
            digest.update(json.dumps([document.id, document.text]).encode())
        file.flush()


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where} is not JSON ({error}): every line must hold one JSON object") from error


def _lines(file: IO[bytes], path: Path) -> Iterator[tuple[int, Any, str]]:
    offset = 0
    for number, line in enumerate(file, 1):
        where = f"line {number} of {path}"
        if line.strip():
            yield offset, _parsed(line, where), where
        offset += len(line)


def _records(path: Path) -> Iterator[tuple[Any, str]]:
    if path.name.endswith(".parquet"):
        yield from _parquet_records(path)
        return
    try:
        with gzip.open(path) as file:
            yield from ((record, where) for _, record, where in _lines(file, path))  # type: ignore[arg-type]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigurationError(
            f"{path} cannot be decompressed ({error}): compress it again, or use plain .jsonl"
        ) from error


def _parquet_records(path: Path) -> Iterator[tuple[Any, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for record in batch.to_pylist():
                    number += 1
                    yield record, f"row {number} of {path}"
    except pa.ArrowException as error:
        raise ConfigurationError(f"{path} is not a Parquet file that can be read: {error}") from error


def _copied(records: Iterator[tuple[Any, str]], file: IO[bytes]) -> Iterator[tuple[int, Any, str]]:
    for record, where in records:
        offset = file.tell()
        file.write(json.dumps(record, default=str).encode() + b"\n")
        yield offset, record, where
