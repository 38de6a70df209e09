"""The learner: samples in, a new published policy version out.

Update n, counted from 0, turns version n into version n + 1. An update happens whole or not at all: samples are checked before anything
changes, and when something fails between the first optimizer step and the publication, the learner refuses further work
until a checkpoint is loaded. Repeating the update that was last finished returns its answer again.

Blocking; called from one thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError, LearnerError
from spade_rl.learner.advantages import Credit, credit
from spade_rl.learner.batch import MicroBatch, collate
from spade_rl.learner.checkpoint import Progress, load_checkpoint, save_checkpoint
from spade_rl.learner.engine import Engine, StepReport
from spade_rl.learner.packing import deal, pack
from spade_rl.learner.publish import Publisher
from spade_rl.learner.report import update_metrics
from spade_rl.learner.samples import ROLES, Role, Sample, check_samples
from spade_rl.seeds import derive_seed


@dataclass(frozen=True, kw_only=True)
class Update:
    """A finished update: the version it made, where it lies, what was measured; ``fresh`` unless it is an answer repeated."""

    policy_version: int
    uri: str
    metrics: Mapping[str, float]
    fresh: bool = True


@dataclass(frozen=True, kw_only=True)
class Published:
    """A version that engines can load, and where it lies."""

    policy_version: int
    uri: str


class Learner:
    """Owns the policy's weights. ``published``, the newest version, may be read from any thread."""

    def __init__(self, config: RunConfig, engine: Engine, publisher: Publisher) -> None:
        self._config, self._engine, self._publisher = config, engine, publisher
        self._weight = {Role.AGENT: config.learner.agent_weight, Role.DESIGNER: config.learner.designer_weight}
        self._temperature = {Role.AGENT: config.agent.temperature, Role.DESIGNER: config.designer.temperature}
        for role in ROLES:
            if self._weight[role] and self._temperature[role] == 0 and (role is Role.AGENT or config.designer.trained):
                raise ConfigurationError(
                    f"{role}.temperature is 0: greedy tokens have no probability to learn from. Set it above 0, or "
                    f"learner.{role}_weight to 0"
                )
        self._progress = Progress()
        self._broken: str | None = None
        self.published = Published(policy_version=0, uri=publisher.publish(0, engine.export()))

    @property
    def policy_version(self) -> int:
        """The newest published version."""
        return self.published.policy_version

    @property
    def uri(self) -> str:
        """Where the newest published version lies."""
        return self.published.uri

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self._engine.name

    def train(self, update: int, samples: Sequence[Sample], *, seed: int | None = None) -> Update:
        """Make version ``update + 1`` from ``samples``; ``seed`` is the run's where it is not the configuration's.

        Without any signal in them the weights stay, and are published under the new number.
        """
        self._check_usable()
        if update == self.policy_version - 1 and self._progress.metrics is not None:
            return Update(policy_version=self.policy_version, uri=self.uri, metrics=self._progress.metrics, fresh=False)
        if update != self.policy_version:
            raise ConfigurationError(
                f"the learner holds policy version {self.policy_version}, so its next update is number {self.policy_version}, "
                f"not {update}: load the checkpoint that belongs to the run's cycle first"
            )
        version = update + 1
        start = time.monotonic()
        check_samples(samples, vocabulary=self._engine.vocabulary)
        settings = self._config.learner
        shares = credit(
            samples,
            window=self._config.regret.window,
            cap=settings.designer_scale_cap,
            normalise=settings.normalise_advantage,
        )
        steps = self._plan(update, samples, shares, self._config.run.seed if seed is None else seed)
        reports: list[StepReport] = []
        try:
            for batches in steps:
                reports.append(self._engine.step(batches))
            uri = self._publisher.publish(version, self._engine.export())
        except BaseException as error:
            if reports:
                self._broken = f"update {update} failed half-way ({error})"
            raise
        metrics = update_metrics(
            update=update,
            samples=samples,
            shares=shares,
            batches=[batch for step in steps for batch in step],
            reports=reports,
            seconds=time.monotonic() - start,
        )
        self._progress = Progress(policy_version=version, metrics=metrics)
        self.published = Published(policy_version=version, uri=uri)
        self._publisher.prune(version)
        return Update(policy_version=version, uri=uri, metrics=metrics)

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise LearnerError(f"{self._broken}; load the last checkpoint before anything else")

    def _plan(self, update: int, samples: Sequence[Sample], shares: Credit, seed: int) -> list[list[MicroBatch]]:
        """Return the micro-batches of every optimizer step that has any."""
        settings = self._config.learner
        used = [
            index
            for index, (sample, advantage) in enumerate(zip(samples, shares.advantages, strict=True))
            if advantage is not None and sample.trained_tokens and self._weight[sample.role]
        ]
        hands = [
            hand
            for epoch in range(settings.epochs)
            for hand in deal(samples, used, steps=settings.steps, seed=derive_seed(seed, "update", update, epoch))
        ]
        return [self._micro_batches(samples, shares, hand) for hand in hands if hand]

    def _micro_batches(self, samples: Sequence[Sample], shares: Credit, hand: Sequence[int]) -> list[MicroBatch]:
        tokens = {role: sum(samples[i].trained_tokens for i in hand if samples[i].role is role) for role in ROLES}
        weights = {role: self._weight[role] / max(1, tokens[role]) for role in ROLES}
        packs = pack([len(samples[i].token_ids) for i in hand], micro_tokens=self._config.learner.micro_tokens)
        return [
            collate(
                [samples[hand[place]] for place in places],
                [shares.advantages[hand[place]] or 0.0 for place in places],
                weights=weights,
                temperatures=self._temperature,
            )
            for places in packs
        ]

    def save(self, folder: Path) -> int:
        """Write a checkpoint and return the version it holds."""
        self._check_usable()
        save_checkpoint(folder, self._engine, self._progress)
        return self.policy_version

    def load(self, folder: Path) -> Update:
        """Restore a checkpoint and publish its weights again under their version."""
        progress = load_checkpoint(folder, self._engine)
        self._broken = f"the policy of {folder} was loaded but not published"
        uri = self._publisher.publish(progress.policy_version, self._engine.export())
        self._progress, self._broken = progress, None
        self.published = Published(policy_version=progress.policy_version, uri=uri)
        self._publisher.prune(progress.policy_version)
        return Update(policy_version=self.policy_version, uri=self.uri, metrics=progress.metrics or {})

    def close(self) -> None:
        """Free the engine."""
        self._engine.close()
