"""A real cluster: the one that KUBECONFIG names. Its nodes need a gVisor handler and the images.

SPADE_IMAGE_BASE and SPADE_IMAGE_TAG say what the images are called (localhost/spade and dev by default).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from release import Failed, Release, run

from helm import helm as find_helm

NAMESPACE = "spade-test"


@pytest.fixture(scope="session")
def helm() -> Path:
    return Path(find_helm())


@pytest.fixture(scope="session")
def cluster() -> None:
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG is not set: there is no cluster to test on")
    if not shutil.which("kubectl"):
        pytest.fail("KUBECONFIG is set, but there is no kubectl on the PATH")
    try:
        run("kubectl", "get", "--raw", "/readyz", seconds=30)
    except Failed as error:
        pytest.fail(f"the cluster that KUBECONFIG names does not answer: {error}")


@pytest.fixture(scope="session")
def release(cluster: None, helm: Path) -> Iterator[Release]:
    """An empty namespace with Pod Security "restricted" enforced, and a release to put there."""
    image = {
        "base": os.environ.get("SPADE_IMAGE_BASE", "localhost/spade"),
        "tag": os.environ.get("SPADE_IMAGE_TAG", "dev"),
    }
    run("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s", seconds=150)
    run("kubectl", "create", "namespace", NAMESPACE)
    run("kubectl", "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    release = Release(helm, NAMESPACE, {"image": image})
    yield release
    release.uninstall()
    run("kubectl", "delete", "namespace", NAMESPACE, "--timeout=120s", seconds=150)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the cluster, where runs are copied to."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def command(release: Release) -> list[str]:
    """The command line up to the command's name."""
    context = run("kubectl", "config", "current-context").strip()
    code = "from spade_rl.cli.main import main; main()"
    return [sys.executable, "-c", code, "--context", context, "--namespace", release.namespace]


@pytest.fixture
def spade(command: list[str], home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command against the release from ``home``."""
    return lambda *arguments, seconds=600: subprocess.run(
        [*command, *arguments], cwd=home, capture_output=True, text=True, timeout=seconds, check=False
    )
