"""Reading corpora: every format gives the same documents, and what is wrong is named with its place."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spade_rl.designer.corpus import Document, FileCorpus, as_document
from spade_rl.errors import ConfigurationError

RECORDS = [
    {"id": "a", "title": "First", "text": "Words of one.", "licence": "CC0"},
    {"id": 7, "title": "", "text": "Zeichen – ÄÖ\u2028 und mehr."},
    {"title": "Untitled", "text": "Without a name."},
]


def lines(records: list[object]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def read(path: Path, text_field: str | None = None) -> tuple[list[Document], str]:
    corpus = FileCorpus(path, text_field=text_field, scratch=path.parent)
    documents = [corpus[number] for number in range(len(corpus))]
    corpus.close()
    return documents, corpus.fingerprint


def test_every_format_gives_the_same_documents(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(RECORDS) + b"\n  \n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines(RECORDS)))
    table = pa.Table.from_pylist([{**r, "id": None if "id" not in r else str(r["id"])} for r in RECORDS])
    pq.write_table(table, tmp_path / "c.parquet")
    expected = read(tmp_path / "c.jsonl")
    assert [d.id for d in expected[0]][:2] == ["a", "7"]
    assert [d.text for d in expected[0]] == [r["text"] for r in RECORDS]
    assert [d.title for d in expected[0]] == ["First", "", "Untitled"]
    assert read(tmp_path / "c.jsonl.gz") == expected
    assert read(tmp_path / "c.parquet") == expected
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.jsonl").write_bytes(lines(RECORDS[:1]))
    (tmp_path / "sub" / "c.jsonl.gz").write_bytes(gzip.compress(lines(RECORDS[1:2])))
    (tmp_path / "README.md").write_text("not a corpus")
    assert [d.id for d in read(tmp_path)[0]] == ["a", "7"]


def test_identities_without_an_id_are_stable(tmp_path: Path) -> None:
    document = as_document({"text": "Without a name."}, None, "here")
    assert document == as_document({"text": "Without a name.", "other": 1, "id": ""}, None, "there")
    assert document.id != as_document({"text": "Another."}, None, "here").id


def test_the_text_field(tmp_path: Path) -> None:
    assert as_document({"orig_doc": "x"}, None, "here").text == "x"
    assert as_document({"body": "x", "text": "y"}, "body", "here").text == "x"
    with pytest.raises(ConfigurationError, match=r"here has no field body \(it has text\).*grounding.text_field"):
        as_document({"text": "y"}, "body", "here")
    assert as_document({"text": "lone \ud800 surrogate"}, None, "here").text == "lone ? surrogate"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "fine"}\n{"text": \n', r"line 2 of .*corpus.jsonl is not JSON"),
        (b'{"text": "fine"}\n\n["a"]\n', r"line 3 of .* is not a JSON object"),
        (b'{"text": "fine"}\n{"body": "b"}\n', r"line 2 of .* has no field text or orig_doc \(it has body\)"),
        (b'{"text": "  "}\n', r"line 1 of .* has no text"),
        (b'{"text": 3}\n', r"line 1 of .* has no text"),
        (b'{"text": "\xff"}\n', r"line 1 of .* is not JSON"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
    ],
)
def test_bad_lines_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read(tmp_path / "corpus.jsonl")


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        read(tmp_path / "absent.jsonl")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ConfigurationError, match=r"must end in \.jsonl"):
        read(tmp_path / "notes.txt")
    with pytest.raises(ConfigurationError, match=r"holds no \.jsonl"):
        read(tmp_path)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines(RECORDS))[:-12])
    with pytest.raises(ConfigurationError, match=r"c\.jsonl\.gz cannot be decompressed"):
        read(tmp_path / "c.jsonl.gz")
    (tmp_path / "d.jsonl.gz").write_bytes(lines(RECORDS))
    with pytest.raises(ConfigurationError, match=r"d\.jsonl\.gz cannot be decompressed"):
        read(tmp_path / "d.jsonl.gz")
    (tmp_path / "e.parquet").write_bytes(b"PAR1 is not all")
    with pytest.raises(ConfigurationError, match=r"e\.parquet is not a Parquet file"):
        read(tmp_path / "e.parquet")


def test_a_file_that_changes_under_the_run_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(lines(RECORDS))
    corpus = FileCorpus(path, text_field=None, scratch=None)
    path.write_bytes(b"x" * 500)
    with pytest.raises(ConfigurationError, match="another when the run started"):
        corpus[1]
    corpus.close()
