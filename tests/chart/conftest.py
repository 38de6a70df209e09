"""The chart as Helm renders it for an installation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from documents import Refused

from helm import helm as find_helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "spade"
# What a cluster may have beyond Kubernetes itself.
OPTIONAL = ("keda.sh/v1alpha1", "cert-manager.io/v1", "extensions.agents.x-k8s.io/v1beta1", "monitoring.coreos.com/v1")
Document = dict[str, Any]
Render = Callable[..., list[Document]]


@pytest.fixture(scope="session")
def helm() -> Path:
    try:
        return Path(find_helm())
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"there is no Helm here, and none could be had: {error}")


@pytest.fixture(scope="session")
def render(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Return a function that renders the chart with values and returns its documents; raises Refused."""

    def rendered(
        values: Document | None = None, *, apis: tuple[str, ...] = OPTIONAL, name: str = "spade"
    ) -> list[Document]:
        file = tmp_path_factory.mktemp("values") / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        command = [str(helm), "template", name, str(CHART), "--namespace", "trial", "--values", str(file)]
        done = subprocess.run(
            [*command, *(f"--api-versions={api}" for api in apis)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode:
            raise Refused(done.stderr)
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return rendered
