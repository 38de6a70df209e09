"""The commands against a real coordinator, over a socket and over mutual TLS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from spade_rl.cli.elsewhere import Submission, as_given
from spade_rl.memory.archive import Archive


def test_a_run_is_told_of(spade: Callable[..., Any], as_json: Callable[[str], Any], serve: Callable[..., Any]) -> None:
    at = ("--coordinator", serve().address)
    text = spade(*at, "status")
    assert text.exit_code == 0, text.output
    assert "demo" in text.stdout
    assert "finished" in text.stdout
    (row,) = as_json(spade(*at, "status", "--json").stdout)["runs"]
    assert (row["run_id"], row["state"], row["cycle"], row["isolation"]) == ("demo", "finished", 4, "gvisor")
    assert spade(*at, "status", "demo").exit_code == 0
    unknown = spade(*at, "status", "other")
    assert unknown.exit_code == 2
    assert "there is no run 'other'; there are demo" in unknown.stderr


def test_events_are_printed(spade: Callable[..., Any], serve: Callable[..., Any]) -> None:
    at = ("--coordinator", serve().address)
    lines = spade(*at, "logs").stdout.splitlines()
    assert "run demo started" in lines[0]
    assert lines[-1].endswith("finished")
    events = [json.loads(line) for line in spade(*at, "logs", "--json", "--follow", "--since", "3").stdout.splitlines()]
    assert [one["number"] for one in events] == list(range(3, 8))
    assert spade(*at, "logs", "--since", "99").stdout == ""


def test_a_finished_run_stays_as_it_is(
    spade: Callable[..., Any], as_json: Callable[[str], Any], serve: Callable[..., Any]
) -> None:
    at = ("--coordinator", serve().address)
    assert as_json(spade(*at, "stop", "--json").stdout) == {"run_id": "demo", "state": "finished"}
    assert as_json(spade(*at, "resume", "demo", "--json").stdout) == {"run_id": "demo", "state": "finished"}
    assert "fetch" in spade(*at, "resume").stdout


def test_a_copy_is_an_ordinary_run(
    spade: Callable[..., Any], as_json: Callable[[str], Any], serve: Callable[..., Any], tmp_path: Path
) -> None:
    at = ("--coordinator", serve().address)
    here = ("--runs-dir", str(tmp_path / "home"))
    copied = spade(*at, "fetch", *here)
    assert copied.exit_code == 0, copied.output
    assert "report.html" in copied.stdout
    assert as_json(spade("runs", *here, "--json").stdout)["runs"][0]["state"] == "finished"
    assert spade("report", "demo", *here).exit_code == 0
    assert spade("envs", "list", "demo", *here).exit_code == 0
    with Archive.open(tmp_path / "home" / "demo", read_only=True) as archive:
        assert len(archive.environments("demo")) == 6
        assert len(archive.trajectory_headers("demo")) == 24
    assert len(list((tmp_path / "home" / "demo" / "environments").glob("*.py"))) == 6


def test_what_is_here_is_not_copied_again(
    spade: Callable[..., Any], as_json: Callable[[str], Any], serve: Callable[..., Any], tmp_path: Path
) -> None:
    at = ("--coordinator", serve().address)
    command = (*at, "fetch", "demo", "--runs-dir", str(tmp_path / "home"), "--json")
    first = as_json(spade(*command).stdout)
    assert first["received_bytes"] > 10_000
    (tmp_path / "home" / "demo" / "report.html").write_text("changed")
    again = as_json(spade(*command).stdout)
    assert 0 < again["received_bytes"] < first["received_bytes"]
    assert "<html" in Path(again["report"]).read_text()
    assert as_json(spade(*command).stdout)["received_bytes"] == 0


def test_a_copy_overwrites_nothing_else(spade: Callable[..., Any], serve: Callable[..., Any], tmp_path: Path) -> None:
    at = ("--coordinator", serve().address)
    mine = tmp_path / "home" / "demo"
    mine.mkdir(parents=True)
    (mine / "manifest.json").write_text("mine")
    refused = spade(*at, "fetch", "--runs-dir", str(tmp_path / "home"))
    assert refused.exit_code == 2
    assert "holds something else than a copy" in refused.stderr
    assert (mine / "manifest.json").read_text() == "mine"


def test_a_submitted_configuration_has_to_fit(
    spade: Callable[..., Any], serve: Callable[..., Any], tmp_path: Path
) -> None:
    at = ("--coordinator", serve().address)
    refused = spade(*at, "submit", "learner.learning_rate=0.5")
    assert refused.exit_code == 2
    assert "learner.learning_rate: 0.5, started with" in refused.stderr
    unknown = spade(*at, "submit", "run.cycels=3")
    assert unknown.exit_code == 2
    assert "cycels" in unknown.stderr
    named = spade(*at, "submit", "--name", "../x")
    assert named.exit_code == 2
    assert "cannot name a run" in named.stderr
    taken = spade(*at, "submit", "--name", "demo", "run.cycles=3")
    assert taken.exit_code == 2
    assert "another configuration" in taken.stderr


def test_only_what_was_given_is_submitted(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("run: {cycles: 3}\n")
    config = Submission(file, None, ("regret.plays=2",)).resolved("learner: {loss: cispo}")
    assert yaml.safe_load(as_given(config)) == {"run": {"cycles": 3}, "regret": {"plays": 2}}
    alone = Submission(None, None, ("regret.plays=2",)).resolved("learner: {loss: cispo}")
    assert yaml.safe_load(as_given(alone)) == {"learner": {"loss": "cispo"}, "regret": {"plays": 2}}


def test_clients_without_the_right_certificate_are_refused(
    spade: Callable[..., Any],
    serve: Callable[..., Any],
    certificates: Callable[[str], Path],
) -> None:
    served = serve(mutual=True)
    assert spade("--coordinator", served.address, "--tls", str(served.tls), "status").exit_code == 0
    stranger = certificates("stranger") / "client"
    for tls in (("--tls", str(stranger)), ()):
        refused = spade("--coordinator", served.address, *tls, "status")
        assert refused.exit_code == 1
        assert "the coordinator of 127.0.0.1" in refused.stderr
    missing = spade("--coordinator", served.address, "--tls", "nowhere", "status")
    assert missing.exit_code == 2
    assert "--tls names a folder" in missing.stderr


@pytest.mark.parametrize("command", ["submit", "status", "logs", "stop", "fetch"])
def test_it_must_be_said_which_coordinator(spade: Callable[..., Any], command: str) -> None:
    refused = spade(command)
    assert refused.exit_code == 2
    assert "spade --context CONTEXT" in refused.stderr


def test_options_that_do_not_go_together_end_the_command(spade: Callable[..., Any]) -> None:
    refused = spade("--release", "x", "status")
    assert refused.exit_code == 2
    assert "--release needs --context" in refused.stderr
    assert spade("doctor", "--image", "x").exit_code == 2


def test_a_context_that_is_not_there(
    spade: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "me", "user": {"token": "t"}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
            }
        )
    )
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    for command in ("status", "doctor"):
        unknown = spade("--context", "prod", command)
        assert unknown.exit_code == 2
        assert "no context 'prod'; it has lab" in unknown.stderr
        silent = spade("--context", "lab", command)
        assert silent.exit_code == 1
        assert "the cluster's API server does not answer" in silent.stderr
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    nothing = spade("--context", "lab", "status")
    assert nothing.exit_code == 2
    assert "cannot use your kubeconfig" in nothing.stderr
