"""Pack a folder of images in OCI's layout into one archive that container runtimes import, each image under its name.

    python scripts/image_archive.py FOLDER ARCHIVE

Images in one layout share their layers, so each is written, and later read, once. The name of an image in the layout is
its reference as it was pushed; containerd takes a whole one from an annotation of its own.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

PUSHED, CONTAINERD = "org.opencontainers.image.ref.name", "io.containerd.image.name"


def named(index: dict[str, object]) -> dict[str, object]:
    """Return the layout's index with every image named as containerd wants it."""
    manifests: list[dict[str, dict[str, str]]] = index["manifests"]  # type: ignore[assignment]
    for manifest in manifests:
        manifest["annotations"][CONTAINERD] = manifest["annotations"][PUSHED]
    return index


def pack(folder: Path, archive: Path) -> None:
    """Write the archive, whole or not at all."""
    index = folder / "index.json"
    index.write_text(json.dumps(named(json.loads(index.read_text()))))
    temporary = archive.with_name(f"{archive.name}.part")
    with tarfile.open(temporary, "w") as tar:
        for name in ("oci-layout", "index.json", "blobs"):
            tar.add(folder / name, name)
    temporary.replace(archive)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
