"""Which documents the designer is shown next.

Without replacement within an epoch: every document comes once before any comes again, in an order that the run's seed
and the epoch decide. A cursor says where the corpus goes on; drawing again from an old cursor gives the same
documents, so an interrupted cycle is repeated exactly. A cursor of another corpus is refused.

A Hugging Face data set is a stream of unknown length: it is shuffled block by block, and its cursor holds the
stream's own state at the block's beginning, from which the block is read again.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from spade_rl.config import GroundingSection
from spade_rl.designer.corpus import Document, FileCorpus, as_document
from spade_rl.errors import ConfigurationError
from spade_rl.seeds import derive_seed

STREAM_PREFIX = "hf:"
BLOCK = 256


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a corpus goes on: documents drawn in this epoch, or in this block of a stream."""

    corpus: str
    epoch: int = 0
    position: int = 0
    block: int = 0
    stream: dict[str, Any] | None = None


def parse_cursor(text: str, fingerprint: str) -> Cursor:
    """Return the cursor of a text that ``dump_cursor`` made; an empty one stands for the beginning."""
    if not text:
        return Cursor(fingerprint)
    try:
        cursor = Cursor(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"the grounding cursor is damaged ({error}): resume from another checkpoint"
        ) from error
    if cursor.corpus != fingerprint:
        raise ConfigurationError(
            "the corpus is not the one that the run began with (its content changed): restore it, or start a new run"
        )
    return cursor


def dump_cursor(cursor: Cursor) -> str:
    """Return a cursor as an opaque text."""
    return json.dumps(asdict(cursor), sort_keys=True)


class Grounding(Protocol):
    """A corpus that documents are drawn from."""

    def draw(self, count: int, *, cursor: str, run_seed: int) -> tuple[list[Document], str]:
        """Return the next documents and the cursor after them."""

    def close(self) -> None:
        """Let go of what the corpus holds."""


class FileGrounding:
    """Draws from files, whose documents have numbers."""

    def __init__(self, corpus: FileCorpus) -> None:
        self._corpus = corpus
        self._order: tuple[tuple[int, int], array[int]] | None = None

    def draw(self, count: int, *, cursor: str, run_seed: int) -> tuple[list[Document], str]:
        """Return the next documents and the cursor after them."""
        at = parse_cursor(cursor, self._corpus.fingerprint)
        epoch, position = at.epoch, at.position
        documents: list[Document] = []
        while len(documents) < count:
            order = self._shuffled(run_seed, epoch)
            taken = order[position : position + count - len(documents)]
            documents += [self._corpus[number] for number in taken]
            position += len(taken)
            if position >= len(order):
                epoch, position = epoch + 1, 0
        return documents, dump_cursor(Cursor(at.corpus, epoch, position))

    def close(self) -> None:
        """Close the files."""
        self._corpus.close()

    def _shuffled(self, run_seed: int, epoch: int) -> array[int]:
        if self._order is None or self._order[0] != (run_seed, epoch):
            numbers = array("Q", range(len(self._corpus)))
            random.Random(derive_seed(run_seed, "corpus", epoch)).shuffle(numbers)
            self._order = (run_seed, epoch), numbers
        return self._order[1]


class StreamGrounding:
    """Draws from a Hugging Face data set in streaming mode; ``name`` is what ``load_dataset`` takes."""

    def __init__(self, name: str, split: str, *, text_field: str | None) -> None:
        import datasets

        self._name, self._text_field = name, text_field
        self.fingerprint = f"{STREAM_PREFIX}{name}:{split}"
        try:
            self._dataset: Any = datasets.load_dataset(name, split=split, streaming=True)
            self._start: dict[str, Any] = self._dataset.state_dict()
            self._stream: Iterator[Any] = iter(())
            # The block that is in memory, and which one it is.
            self._open: tuple[tuple[int, int, int], list[Document]] | None = None
            empty = next(iter(self._dataset), None) is None
        except Exception as error:  # datasets raises what its many readers raise
            raise ConfigurationError(
                f"cannot stream the data set {name} ({split}): {type(error).__name__}: {str(error)[:300]}. Check its name, "
                "grounding.split and the network, or give a file"
            ) from error
        if empty:
            raise ConfigurationError(f"the data set {name} ({split}) is empty: it must hold at least one document")

    def draw(self, count: int, *, cursor: str, run_seed: int) -> tuple[list[Document], str]:
        """Return the next documents and the cursor after them."""
        at = parse_cursor(cursor, self.fingerprint)
        epoch, block, position, state = at.epoch, at.block, at.position, at.stream or self._start
        if self._open is None or self._open[0] != (run_seed, epoch, block):
            self._open = (run_seed, epoch, block), self._read(state, run_seed, epoch, block)
        order = self._open[1]
        documents: list[Document] = []
        while len(documents) < count:
            taken = order[position : position + count - len(documents)]
            documents += taken
            position += len(taken)
            if position >= len(order):
                state, block, position = self._dataset.state_dict(), block + 1, 0
                order = self._shuffled(run_seed, epoch, block)
                if not order:
                    epoch, block, state = epoch + 1, 0, self._start
                    order = self._read(state, run_seed, epoch, block)
                self._open = (run_seed, epoch, block), order
        return documents, dump_cursor(Cursor(at.corpus, epoch, position, block, state))

    def close(self) -> None:
        """Nothing stays open."""

    def _read(self, state: dict[str, Any], run_seed: int, epoch: int, block: int) -> list[Document]:
        """Return the block that begins where ``state`` says; the stream then stands at its end."""
        self._dataset.load_state_dict(state)
        self._stream = iter(self._dataset)
        return self._shuffled(run_seed, epoch, block)

    def _shuffled(self, run_seed: int, epoch: int, block: int) -> list[Document]:
        try:
            records = list(islice(self._stream, BLOCK))
        except Exception as error:  # datasets raises what its many readers raise
            raise ConfigurationError(
                f"cannot read on in the data set {self._name}: {type(error).__name__}: {str(error)[:300]}. Check the "
                "network and resume the run"
            ) from error
        documents = [
            as_document(record, self._text_field, f"record {number} of {self._name}")
            for number, record in enumerate(records, block * BLOCK + 1)
        ]
        random.Random(derive_seed(run_seed, "corpus", epoch, block)).shuffle(documents)
        return documents


def open_grounding(section: GroundingSection, scratch: Path | None = None) -> Grounding | None:
    """Return the configured corpus, or None where grounding is off.

    Raises ConfigurationError that names the file and line where something is wrong. ``scratch`` is where copies of
    compressed files lie while the process lives.
    """
    if not section.enabled:
        return None
    if section.corpus.startswith(STREAM_PREFIX):
        return StreamGrounding(section.corpus.removeprefix(STREAM_PREFIX), section.split, text_field=section.text_field)
    if section.corpus == "sample":
        path = Path(str(resources.files("spade_rl") / "data" / "corpus" / "train.jsonl.gz"))
        return FileGrounding(FileCorpus(path, text_field=None, scratch=scratch))
    path = Path(section.corpus).expanduser()
    return FileGrounding(FileCorpus(path, text_field=section.text_field, scratch=scratch))
