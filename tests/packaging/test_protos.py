"""The wire: stubs are what the protos say, rules compile, nothing accepted before is broken."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import protovalidate
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "protos" / "spade_rl" / "v1").glob("*.proto"))


def files():
    return [import_module(f"spade_rl.v1.{path.stem}_pb2").DESCRIPTOR for path in PROTOS]


def methods():
    return [m for file in files() for service in file.services_by_name.values() for m in service.methods]


def reachable(descriptor, seen):
    """Add a message and every message of ours that it can hold."""
    if descriptor.full_name in seen or not descriptor.full_name.startswith("spade_rl."):
        return
    seen[descriptor.full_name] = descriptor
    for field in descriptor.fields:
        if field.message_type is not None:
            reachable(field.message_type, seen)


def arriving():
    """Return every message that a server can receive, alone or within another."""
    seen = {}
    for method in methods():
        reachable(method.input_type, seen)
    return seen


def constrained(field):
    return any(extension.full_name == "buf.validate.field" for extension, _ in field.GetOptions().ListFields())


def test_stubs_are_current():
    command = [sys.executable, ROOT / "protos" / "generate.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


def test_there_is_a_service_for_each_folder():
    services = {name for file in files() for name in file.services_by_name}
    folders = {path.name for path in (ROOT / "services").iterdir() if (path / "__init__.py").exists()}
    assert {f"{name.capitalize()}Service" for name in folders} | {"InferenceService"} == services


@pytest.mark.parametrize("name", sorted(arriving()))
def test_rules_of_what_arrives_compile(name):
    """A rule that does not compile raises CompilationError; an empty message may or may not be valid."""
    protovalidate.collect_violations(GetMessageClass(arriving()[name])())


@pytest.mark.parametrize("name", sorted(arriving()))
def test_every_text_and_list_that_arrives_is_bounded(name):
    unbounded = [
        field.name
        for field in arriving()[name].fields
        if (field.is_repeated or field.type in (field.TYPE_STRING, field.TYPE_BYTES)) and not constrained(field)
    ]
    assert unbounded == []


def wire(data):
    image = descriptor_pb2.FileDescriptorSet.FromString(data)
    ours = {file.name: file for file in image.file if file.name.startswith("spade_rl/")}
    for file in ours.values():
        file.ClearField("source_code_info")
    return ours


def test_the_baseline_protects_the_whole_wire(tmp_path):
    """What is new is protected from the day that it lands: `make protos` takes it into the baseline."""
    image = tmp_path / "image.binpb"
    subprocess.run([sys.executable, ROOT / "protos" / "generate.py", "--image", image], check=True, timeout=120)
    current, accepted = wire(image.read_bytes()), wire((ROOT / "protos" / "baseline.binpb").read_bytes())
    assert current.keys() == accepted.keys()
    for name, file in current.items():
        other = accepted[name]
        assert [m.name for m in file.message_type] == [m.name for m in other.message_type], name
        for mine, theirs in zip(file.message_type, other.message_type, strict=True):
            assert [(f.name, f.number, f.type) for f in mine.field] == [
                (f.name, f.number, f.type) for f in theirs.field
            ], f"{mine.name} is not what the baseline says: run `make protos`"
        assert [(s.name, [m.name for m in s.method]) for s in file.service] == [
            (s.name, [m.name for m in s.method]) for s in other.service
        ], name
