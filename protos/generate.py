"""Generate the Python stubs of the wire format into ``pkg/spade_rl/v1``.

The validation rules import ``buf/validate/validate.proto``, which the ``protovalidate`` wheel carries only as
a descriptor. The compiler takes it as a descriptor set, and its own stub is generated beside ours, so that
nothing outside ``spade_rl`` becomes importable.

    python protos/generate.py            write the stubs
    python protos/generate.py --check    exit 1 if the stubs differ from what the protos say
    python protos/generate.py --image F  write a descriptor set of everything, for buf
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2, duration_pb2, field_mask_pb2, timestamp_pb2
from grpc_tools import protoc
from protovalidate._gen.buf.validate import validate_pb

ROOT = Path(__file__).resolve().parent
STUBS = ROOT.parent / "pkg" / "spade_rl" / "v1"
VALIDATE = "buf/validate/validate.proto"
# Ours, and what others define and we serve.
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("spade_rl/v1/*.proto"))
SOURCES += ["keda/externalscaler.proto"]


def run_protoc(work: Path, *arguments: str) -> None:
    """Run the bundled compiler over our protos and their dependencies, or exit with its status."""
    dependencies = descriptor_pb2.FileDescriptorSet()
    for module in (descriptor_pb2, duration_pb2, field_mask_pb2, timestamp_pb2):
        module.DESCRIPTOR.CopyToProto(dependencies.file.add())
    dependencies.file.add().ParseFromString(validate_pb.desc().proto.to_binary())
    descriptors = work / "dependencies.binpb"
    descriptors.write_bytes(dependencies.SerializeToString())
    status = protoc.main(["protoc", f"-I{ROOT}", f"--descriptor_set_in={descriptors}", *arguments])
    if status:
        sys.exit(status)


def stubs() -> dict[str, str]:
    """Return the text of every stub by file name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        run_protoc(out, f"--python_out={out}", f"--pyi_out={out}", VALIDATE, *SOURCES)
        run_protoc(out, f"--grpc_python_out={out}", *SOURCES)
        return {
            path.name: re.sub(
                "^from (buf.validate|keda) import", "from spade_rl.v1 import", path.read_text(), flags=re.M
            )
            for path in sorted(out.rglob("*_pb2*.py*"))
        }


def main() -> int:
    """Write, check or describe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--image", type=Path)
    arguments = parser.parse_args()
    if arguments.image:
        with tempfile.TemporaryDirectory() as folder:
            run_protoc(
                Path(folder),
                f"--descriptor_set_out={arguments.image}",
                "--include_imports",
                "--include_source_info",
                *SOURCES,
            )
        return 0
    wanted = stubs()
    present = {path.name: path.read_text() for path in STUBS.glob("*_pb2*.py*")}
    if arguments.check:
        stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
        if stale:
            print(f"stale stubs: {', '.join(stale)}; run `make protos`", file=sys.stderr)
        return 1 if stale else 0
    for name in present.keys() - wanted.keys():
        (STUBS / name).unlink()
    for name, text in wanted.items():
        (STUBS / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
