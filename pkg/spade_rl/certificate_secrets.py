"""``python -m spade_rl.certificate_secrets``: keep the certificates of a Helm release in Kubernetes secrets.

The chart runs it before an installation or an upgrade changes anything. What is still good stays; the rest is made
anew. The secrets carry the release's marks, so that the release owns them and its removal removes them.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spade_rl.certificates import Pair, days_left, issue, make_authority, still_good
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.transport import AUTHORITY, CERTIFICATE, KEY

IDENTITY = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MANAGER = "spade-certificates"
AUTHORITY_DAYS, DAYS = 3650, 1825
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A secret to keep: whose certificate, where it answers, whether it calls others."""

    secret: str
    name: str
    hosts: tuple[str, ...]
    client: bool


class Secrets:
    """The secrets of one namespace, through the API server and as the pod's service account."""

    def __init__(self, namespace: str, release: str) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        host = f"[{host}]" if ":" in host else host
        self._url = f"https://{host}:{port}/api/v1/namespaces/{namespace}/secrets"
        self._release, self._namespace = release, namespace
        self._context = ssl.create_default_context(cafile=str(IDENTITY / "ca.crt"))
        self._token = (IDENTITY / "token").read_text().strip()

    def read(self, name: str) -> dict[str, bytes]:
        """Return a secret's data; nothing if there is no such secret."""
        found = self._ask("GET", name, None)
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    def write(self, name: str, data: dict[str, bytes]) -> None:
        """Make a secret, or replace what it holds."""
        self._ask(
            "PATCH",
            f"{name}?fieldManager={MANAGER}&force=true",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "Opaque",
                "metadata": {
                    "name": name,
                    "labels": {"app.kubernetes.io/managed-by": "Helm"},
                    "annotations": {
                        "meta.helm.sh/release-name": self._release,
                        "meta.helm.sh/release-namespace": self._namespace,
                    },
                },
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
            },
        )

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._url}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/apply-patch+yaml"},
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=SECONDS) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "GET":
                return {}
            raise SpadeError(
                f"{method} {path} failed: {error.code} {error.read().decode(errors='replace')[:500]}"
            ) from error
        except OSError as error:
            raise SpadeError(f"the API server cannot be reached: {error}") from error


def keep(secrets: Secrets, authority_secret: str, wanted: list[Wanted]) -> list[str]:
    """Make what is missing or nearly over; returns the names of the secrets that were written."""
    written: list[str] = []
    found = secrets.read(authority_secret)
    authority = Pair(found.get(CERTIFICATE, b""), found.get(KEY, b""))
    if not authority.key or days_left(authority.certificate) < DAYS / 2:
        authority = make_authority("spade", days=AUTHORITY_DAYS)
        secrets.write(authority_secret, {CERTIFICATE: authority.certificate, KEY: authority.key})
        written.append(authority_secret)
    for one in wanted:
        certificate = secrets.read(one.secret).get(CERTIFICATE, b"")
        if still_good(certificate, authority.certificate, hosts=one.hosts, client=one.client, days=DAYS / 2):
            continue
        pair = issue(authority, name=one.name, hosts=one.hosts, client=one.client, days=DAYS)
        secrets.write(one.secret, {CERTIFICATE: pair.certificate, KEY: pair.key, AUTHORITY: authority.certificate})
        written.append(one.secret)
    return written


def main() -> int:
    """Read the plan from the command line and carry it out; returns the exit status."""
    parser = argparse.ArgumentParser(description="Keep the certificates of a Helm release in secrets.")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--authority", required=True, help="secret of the authority")
    parser.add_argument("--plan", required=True, help="JSON: a list of {secret, name, hosts, client}")
    arguments = parser.parse_args()
    try:
        try:
            plan = [Wanted(**{**one, "hosts": tuple(one["hosts"])}) for one in json.loads(arguments.plan)]
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"--plan is not a list of secrets: {error}") from error
        written = keep(Secrets(arguments.namespace, arguments.release), arguments.authority, plan)
    except SpadeError as error:
        print(f"{error.boundary}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"made {', '.join(written)}" if written else "every certificate is still good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
