from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import make_samples, share_apart, tiny_config, write_model
from safetensors.torch import load_file

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError, LearnerError
from spade_rl.learner.learner import Learner
from spade_rl.learner.samples import Role, Sample
from spade_rl.learner.server import build_learner

Make = Callable[..., RunConfig]


def weights(uri: str) -> dict[str, torch.Tensor]:
    return load_file(Path(uri) / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def learner(make_config: Make, tmp_path: Path) -> Learner:
    return build_learner(make_config(steps=2), tmp_path / "run")


def test_the_starting_model_is_version_zero(learner: Learner, model_folder: Path) -> None:
    start = weights(learner.uri)
    source = load_file(model_folder / "model.safetensors")
    assert learner.policy_version == 0
    assert all(torch.equal(start[name], tensor) for name, tensor in source.items())


def test_an_update_makes_the_next_version_and_reports(learner: Learner) -> None:
    before = weights(learner.uri)
    samples = make_samples(1)
    update = learner.train(0, samples)
    assert (update.policy_version, Path(update.uri).name) == (1, "000001")
    assert not same(before, weights(update.uri))
    m = update.metrics
    assert m["samples"] == len(samples)
    assert m["groups_dropped_agent"] == 1
    assert m["optimizer_steps"] == 2
    assert m["units_agent"] == 16
    assert m["designer_scale"] == pytest.approx(16 / 6 * 2)
    live = [s for s in samples if s.group != "environment3/0"]
    assert m["tokens_agent"] + m["tokens_designer"] == sum(s.trained_tokens for s in live)
    assert m["tokens_processed"] - m["tokens_padded"] == sum(len(s.token_ids) for s in live)
    assert all(np.isfinite(value) for value in m.values())
    for name in ("loss", "clip_share", "ratio_mean", "ratio_max", "entropy", "tokens"):
        assert f"{name}_agent" in m
        assert f"{name}_designer" in m


def test_every_pass_takes_all_samples_again(make_config: Make, tmp_path: Path) -> None:
    once, thrice = (
        build_learner(make_config(steps=2, epochs=epochs), tmp_path / str(epochs)).train(0, make_samples(1)).metrics
        for epochs in (1, 3)
    )
    assert thrice["optimizer_steps"] == 3 * once["optimizer_steps"]
    assert thrice["tokens_agent"] == 3 * once["tokens_agent"]
    # Only the first step meets the policy that sampled.
    assert thrice["divergence_agent"] != once["divergence_agent"] or thrice["ratio_max_agent"] > once["ratio_max_agent"]


def test_the_run_s_seed_deals_the_samples(make_config: Make, tmp_path: Path) -> None:
    def norms(name: str, seed: int | None) -> float:
        learner = build_learner(make_config(steps=3), tmp_path / name)
        return learner.train(0, make_samples(1), seed=seed).metrics["gradient_norm_max"]

    own = make_config().run.seed
    assert norms("unset", None) == norms("same", own)
    assert len({norms(str(seed), seed) for seed in range(own, own + 6)}) > 1


def test_learning_raises_the_probability_of_what_paid(make_config: Make, tmp_path: Path) -> None:
    samples = [s for s in make_samples(0, designer=False) if s.group != "environment3/0"]
    learner = build_learner(make_config(loss="reinforce", learning_rate=1e-3), tmp_path)

    def mean_log_probability(*, paid: bool) -> float:
        chosen = [s for s in samples if (s.reward > 0) == paid]
        model = learner._engine._objective.policy.model  # type: ignore[attr-defined]
        total, count = 0.0, 0
        with torch.no_grad():
            for sample in chosen:
                log_p = torch.log_softmax(
                    model(input_ids=torch.from_numpy(sample.token_ids)[None]).logits[0].float(), -1
                )
                for place in np.flatnonzero(sample.trained):
                    total, count = total + float(log_p[place - 1, sample.token_ids[place]]), count + 1
        return total / count

    before = mean_log_probability(paid=True), mean_log_probability(paid=False)
    for update in range(5):
        learner.train(update, samples)
    assert mean_log_probability(paid=True) > before[0]
    assert mean_log_probability(paid=False) < before[1]


def test_the_last_update_may_be_repeated_and_no_other(learner: Learner) -> None:
    first = learner.train(0, make_samples(1))
    stored = weights(first.uri)
    again = learner.train(0, make_samples(2))
    assert (again.policy_version, again.uri, again.metrics) == (first.policy_version, first.uri, first.metrics)
    assert (first.fresh, again.fresh) == (True, False)
    assert same(stored, weights(first.uri))
    for number in (2, 7):
        with pytest.raises(ConfigurationError, match="next update is number 1"):
            learner.train(number, make_samples(1))


def test_without_signal_the_weights_stay_under_a_new_number(learner: Learner) -> None:
    before = weights(learner.uri)
    flat = [replace(sample, reward=0.25) for sample in make_samples(1)]
    update = learner.train(0, flat)
    assert update.policy_version == 1
    assert same(before, weights(update.uri))
    assert update.metrics["optimizer_steps"] == 0
    assert learner.train(1, []).policy_version == 2


def spoilt(sample: Sample, **changes: object) -> Sample:
    return replace(sample, unit="spoilt", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "what", ["nan reward", "inf reward", "nan log-prob", "positive log-prob", "vocabulary", "first token"]
)
def test_a_bad_sample_is_named_and_nothing_changes(learner: Learner, what: str) -> None:
    samples = make_samples(1)
    good = samples[0]
    log_probs = good.log_probs.copy()
    log_probs[-1] = np.nan if what == "nan log-prob" else 1.0
    ids = good.token_ids.copy()
    ids[0] = 10**6
    bad = {
        "nan reward": spoilt(good, reward=float("nan")),
        "inf reward": spoilt(good, reward=float("-inf")),
        "nan log-prob": spoilt(good, log_probs=log_probs),
        "positive log-prob": spoilt(good, log_probs=log_probs),
        "vocabulary": spoilt(good, token_ids=ids),
        "first token": spoilt(good, trained=np.ones_like(good.trained), log_probs=np.full_like(good.log_probs, -1.0)),
    }[what]
    before = learner._engine.export()
    with pytest.raises(LearnerError, match="unit 'spoilt'"):
        learner.train(0, [*samples, bad])
    assert same(before, learner._engine.export())
    assert learner.policy_version == 0
    assert learner.train(0, samples).policy_version == 1


def test_a_failure_half_way_blocks_until_a_checkpoint_is_loaded(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.save(tmp_path / "checkpoint")

    def full(*_: object) -> str:
        raise LearnerError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(learner._publisher, "publish", full)
        with pytest.raises(LearnerError, match="disk full"):
            learner.train(0, make_samples(1))
    for refused in (lambda: learner.train(0, make_samples(1)), lambda: learner.save(tmp_path / "x")):
        with pytest.raises(LearnerError, match="load the last checkpoint"):
            refused()
    learner.load(tmp_path / "checkpoint")
    assert learner.train(0, make_samples(1)).policy_version == 1


def test_a_weight_that_is_not_finite_takes_no_step(learner: Learner) -> None:
    parameter = next(iter(learner._engine._parameters.values()))  # type: ignore[attr-defined]
    with torch.no_grad():
        parameter[3:] = float("nan")
    with pytest.raises(LearnerError, match="not taken"):
        learner.train(0, make_samples(1))
    assert learner.policy_version == 0


def test_a_role_of_weight_zero_is_not_trained(make_config: Make, tmp_path: Path) -> None:
    agent = [s for s in make_samples(1) if s.role is Role.AGENT]
    alone = build_learner(make_config(), tmp_path / "alone").train(0, agent)
    frozen = build_learner(make_config(designer_weight=0.0), tmp_path / "frozen").train(0, make_samples(1))
    assert same(weights(alone.uri), weights(frozen.uri))
    assert frozen.metrics["tokens_designer"] == 0


def test_greedy_sampling_cannot_be_trained_on(make_config: Make, tmp_path: Path) -> None:
    config = make_config()
    config = config.model_copy(update={"agent": config.agent.model_copy(update={"temperature": 0.0})})
    with pytest.raises(ConfigurationError, match=r"agent\.temperature is 0"):
        build_learner(config, tmp_path)


def test_updates_do_not_depend_on_micro_batches(make_config: Make, tmp_path: Path) -> None:
    results = [
        build_learner(make_config(steps=2, micro_tokens=size), tmp_path / str(size)).train(0, make_samples(1))
        for size in (64, 4096)
    ]
    small, large = (weights(result.uri) for result in results)
    assert results[0].metrics["micro_batches"] > results[1].metrics["micro_batches"]
    assert share_apart(small, large) < 1e-3


@pytest.mark.parametrize("at", [0, 1])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(make_config: Make, tmp_path: Path, at: int) -> None:
    config = make_config(steps=2)
    whole = build_learner(config, tmp_path / "whole")
    for update in range(at):
        whole.train(update, make_samples(update))
    whole.save(tmp_path / "checkpoint")
    saved = weights(whole.uri)
    expected = whole.train(at, make_samples(at))
    resumed = build_learner(config, tmp_path / "resumed")
    loaded = resumed.load(tmp_path / "checkpoint")
    assert loaded.policy_version == at
    assert Path(loaded.uri).name == f"{at:06d}"
    assert same(saved, weights(loaded.uri))
    result = resumed.train(at, make_samples(at))
    assert same(weights(expected.uri), weights(result.uri))
    times = ("seconds", "tokens_per_second")
    assert {k: v for k, v in expected.metrics.items() if k not in times} == {
        k: v for k, v in result.metrics.items() if k not in times
    }


def test_the_answer_to_the_last_update_survives_a_restart(make_config: Make, tmp_path: Path) -> None:
    learner = build_learner(make_config(), tmp_path / "a")
    first = learner.train(0, make_samples(1))
    learner.save(tmp_path / "checkpoint")
    other = build_learner(make_config(), tmp_path / "b")
    other.load(tmp_path / "checkpoint")
    assert other.train(0, make_samples(1)).metrics == first.metrics


def test_loading_rewinds_and_removes_later_versions(learner: Learner, tmp_path: Path) -> None:
    learner.train(0, make_samples(1))
    learner.save(tmp_path / "checkpoint")
    learner.train(1, make_samples(2))
    learner.load(tmp_path / "checkpoint")
    assert learner.policy_version == 1
    assert learner._publisher.versions() == [1]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "lost", "format", "engine", "not json"])
def test_a_bad_checkpoint_is_refused_and_nothing_changes(learner: Learner, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "checkpoint"
    learner.train(0, make_samples(1))
    learner.save(folder)
    state, manifest = folder / "engine" / "state.safetensors", folder / "learner.json"
    content = json.loads(manifest.read_text())
    if damage == "missing":
        folder = tmp_path / "nowhere"
    elif damage == "empty":
        folder = tmp_path / "empty"
        folder.mkdir()
    elif damage == "truncated":
        state.write_bytes(state.read_bytes()[:-100])
    elif damage == "lost":
        state.unlink()
    elif damage == "format":
        manifest.write_text(json.dumps({**content, "format": 99}))
    elif damage == "engine":
        manifest.write_text(json.dumps({**content, "engine": "deepspeed"}))
    else:
        manifest.write_text("{")
    before = learner._engine.export()
    with pytest.raises(ConfigurationError, match=r"no checkpoint|damaged|format 99|set it back|cannot read"):
        learner.load(folder)
    assert same(before, learner._engine.export())
    assert learner.train(1, make_samples(2)).policy_version == 2


def test_another_models_checkpoint_is_refused(learner: Learner, tmp_path: Path) -> None:
    other = build_learner(tiny_config(write_model(tmp_path / "other", tied=False)), tmp_path / "run2")
    other.save(tmp_path / "foreign")
    with pytest.raises(ConfigurationError, match="another parameters"):
        learner.load(tmp_path / "foreign")


def test_a_checkpoint_replaces_an_older_one_of_its_name(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path / "checkpoint")
    learner.train(0, make_samples(1))
    assert learner.save(tmp_path / "checkpoint") == 1
    assert learner.load(tmp_path / "checkpoint").policy_version == 1
