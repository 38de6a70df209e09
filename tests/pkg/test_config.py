"""The configuration: what is unknown or contradictory is refused before anything starts."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config, presets, validate_config
from spade_rl.errors import ConfigurationError


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_resolves_and_reads_back(name, tmp_path):
    config = load_config(preset=name)
    file = tmp_path / "c.yaml"
    file.write_text(dump_config(config))
    assert load_config(file=file) == config


@given(st.integers(0, 2**31), st.integers(1, 64), st.floats(1e-9, 1, exclude_min=True))
def test_overrides_are_honoured_exactly(seed, plays, rate):
    config = load_config(overrides=[f"run.seed={seed}", f"regret.plays={plays}", f"learner.learning_rate={rate!r}"])
    assert (config.run.seed, config.regret.plays, config.learner.learning_rate) == (seed, plays, rate)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["nonsense.key=1"], "nonsense"),
        (["learner.lr=1"], "learner.lr"),
        (["regret.plays=0"], "regret.plays"),
        (["regret.plays=many"], "regret.plays"),
        (["designer.environments=10", "designer.active_skills=3"], "multiple"),
        (["designer.active_skills=9"], "active_skills"),
        (["designer.skills=[a, a]", "designer.active_skills=1"], "twice"),
        (["agent.max_tokens=40000"], "agent.max_tokens"),
        (["memory.learnable=[0.9, 0.1]"], "memory.learnable"),
        (["evaluation.suite=nano"], "compact"),
        (["designer.kind=puzzle"], "designer.kind"),
        (["designer.kind=tool_use", "agent.history_turns=3"], "agent.history_turns"),
        (["learner"], "override"),
        (["learner.loss={"], "YAML"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(overrides, named):
    with pytest.raises(ConfigurationError, match=named):
        load_config(overrides=overrides)


def test_files_lie_over_presets_and_overrides_over_files(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("regret: {plays: 3}\nrun: {seed: 5}\n")
    config = load_config(preset="quickstart", file=file, overrides=["run.seed=6"])
    assert (config.regret.plays, config.run.seed, config.model.name) == (3, 6, "nano")


def test_a_toml_file_says_the_same_as_a_yaml_file(tmp_path):
    yaml, toml = tmp_path / "c.yaml", tmp_path / "c.toml"
    yaml.write_text("regret: {plays: 3}\nlearner: {learning_rate: 2.0e-4}\n")
    toml.write_text("[regret]\nplays = 3\n[learner]\nlearning_rate = 2e-4\n")
    assert load_config(file=toml) == load_config(file=yaml) != load_config()
    toml.write_text("regret = ")
    with pytest.raises(ConfigurationError, match="TOML"):
        load_config(file=toml)


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "just words\n", "run: 3\n"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError):
        load_config(file=file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"absent\.yaml"):
        load_config(file=tmp_path / "absent.yaml")
    with pytest.raises(ConfigurationError, match="quickstart"):
        load_config(preset="absent")


def test_defaults_are_the_papers():
    config = validate_config({})
    assert config == RunConfig()
    assert (config.regret.plays, config.regret.window, config.designer.environments) == (16, 4, 24)
    assert config.learner.learning_rate == 1e-6


def test_each_kind_has_the_papers_skills_unless_others_are_named():
    games, tools = load_config(), load_config(overrides=["designer.kind=tool_use"])
    assert "logical deduction" in games.designer.skills
    assert "error recovery" in tools.designer.skills
    assert (len(games.designer.skills), len(tools.designer.skills)) == (6, 6)
    assert set(games.designer.skills).isdisjoint(tools.designer.skills)
    own = load_config(overrides=["designer.kind=tool_use", "designer.skills=[a, b]", "designer.active_skills=2"])
    assert own.designer.skills == ("a", "b")
    # As many turns as there can be are as good as all.
    assert load_config(overrides=["designer.kind=tool_use", "agent.history_turns=24"]).agent.history_turns == 24


def test_the_configuration_loads_without_torch():
    code = "import sys, spade_rl.config; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
