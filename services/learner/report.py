"""What an update measured, by name; roles end the names that have one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spade_rl.learner.advantages import Credit
from spade_rl.learner.batch import MicroBatch
from spade_rl.learner.engine import StepReport
from spade_rl.learner.objective import CLIPPED, DIVERGENCE, ENTROPY, LOSS, RATIO, TOKENS, Tally
from spade_rl.learner.samples import ROLES, Sample


def update_metrics(
    *,
    update: int,
    samples: Sequence[Sample],
    shares: Credit,
    batches: Sequence[MicroBatch],
    reports: Sequence[StepReport],
    seconds: float,
) -> dict[str, float]:
    """Return the metrics of an update.

    Losses are means over optimizer steps; shares, ratios, entropies and divergences (nats) are means over trained tokens. Tokens are counted
    three ways, each pass anew: ``tokens_ROLE`` are trained, ``tokens_processed`` went through the model, ``tokens_padded`` among them only fill
    rows. Staleness counts the updates since the version that sampled a sample's oldest trained token.
    """
    tally = sum((report.tally for report in reports), Tally.empty())
    norms = [report.gradient_norm for report in reports]
    stale = [update - sample.policy_version for sample in samples if sample.trained_tokens]
    processed = sum(batch.token_ids.size for batch in batches)
    real = sum(
        len(sample.token_ids)
        for sample, advantage in zip(samples, shares.advantages, strict=True)
        if advantage is not None and sample.trained_tokens
    )
    metrics = {
        "gradient_norm": float(np.mean(norms)) if norms else 0.0,
        "gradient_norm_max": max(norms, default=0.0),
        "optimizer_steps": float(len(reports)),
        "micro_batches": float(len(batches)),
        "tokens_processed": float(processed),
        "tokens_padded": float(max(0, processed - real)),
        "samples": float(len(samples)),
        "designer_scale": shares.designer_scale,
        "staleness_mean": float(np.mean(stale)) if stale else 0.0,
        "staleness_max": float(max(stale, default=0)),
        "seconds": seconds,
        "tokens_per_second": processed / seconds if seconds > 0 else 0.0,
    }
    for role in ROLES:
        row = tally.sums[role.row].tolist()
        tokens = max(1.0, row[TOKENS])
        metrics |= {
            f"loss_{role}": row[LOSS] / max(1, len(reports)),
            f"tokens_{role}": row[TOKENS],
            f"clip_share_{role}": row[CLIPPED] / tokens,
            f"ratio_mean_{role}": row[RATIO] / tokens,
            f"ratio_max_{role}": float(tally.peaks[role.row]),
            f"entropy_{role}": row[ENTROPY] / tokens,
            f"divergence_{role}": row[DIVERGENCE] / tokens,
            f"samples_{role}": float(sum(sample.role is role for sample in samples)),
            f"units_{role}": float(shares.units[role]),
            f"groups_{role}": float(shares.groups[role]),
            f"groups_dropped_{role}": float(shares.dropped[role]),
        }
    return metrics
