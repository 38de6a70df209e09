from __future__ import annotations

from pathlib import Path

import pytest

from spade_rl.cluster.target import Address, Release, make_target
from spade_rl.errors import ConfigurationError

NOTHING = {"context": None, "namespace": None, "release": None, "address": None, "tls": None}


def test_what_the_options_mean() -> None:
    assert make_target(**NOTHING) is None
    assert make_target(**{**NOTHING, "context": "lab"}) == Release("lab", None, "spade")
    assert make_target(**{**NOTHING, "context": "lab", "namespace": "n", "release": "r"}) == Release("lab", "n", "r")
    assert make_target(**{**NOTHING, "address": "h:1", "tls": Path("t")}) == Address("h:1", Path("t"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"namespace": "n"}, "--namespace needs --context"),
        ({"release": "r"}, "--release needs --context"),
        ({"tls": Path("t")}, "--tls needs --coordinator"),
        ({"context": "c", "address": "h:1"}, "two places"),
        ({"address": "h:1", "release": "r"}, "go with --context"),
        ({"context": "c", "tls": Path("t")}, "goes with --coordinator"),
        ({"context": "c", "release": "R_x"}, "no name of Kubernetes"),
        ({"context": "c", "namespace": "-a"}, "no name of Kubernetes"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_target(**{**NOTHING, **options})
