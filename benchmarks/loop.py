"""The self-play loop: seconds per stage, tokens and episodes per second, and the time in which nobody works.

A short run of the shipped nano model is measured as it is: all services, gVisor, records and checkpoints. Then the
inference engine answers the agent prompts of that very run once more, and so does its named peer, ``generate`` of
Hugging Face transformers on the same weights in batches of the same size; ``ratio`` is ours over the peer's sampled
tokens per second. Both sample at temperature 1 until the end token or the same limit, and both are warmed up.

Caveats: one machine, one run; the peer pads every batch to its longest prompt and waits for its slowest reply.

    python -m benchmarks.loop [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from spade_rl.agent.engine.interface import Prompt
from spade_rl.agent.engine.transformers_engine import TransformersEngine
from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.local import train
from spade_rl.memory.archive import Archive
from spade_rl.models import ChatTokenizer, model_location
from spade_rl.telemetry import configure_logging

WARM_UP = 32


def measured_run(config: RunConfig, run_dir: Path) -> list[dict[str, Any]]:
    """Run and return the ``cycle`` events."""
    cycles: list[dict[str, Any]] = []
    train(config, run_dir=run_dir, listener=lambda e: cycles.append(e) if e["event"] == "cycle" else None)
    return cycles


def loop_figures(cycles: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return rates and shares over all cycles. The learner works while it trains, the engine while it has requests."""
    stages = sorted({stage for cycle in cycles for stage in cycle["seconds"]})
    seconds = {stage: sum(cycle["seconds"].get(stage, 0.0) for cycle in cycles) for stage in stages}
    total = sum(seconds.values())
    engine = sum(cycle["engine_busy_share"] * sum(cycle["seconds"].values()) for cycle in cycles)
    tokens = sum(cycle["tokens"]["agent"] + cycle["tokens"]["designer"] for cycle in cycles)
    return {
        "cycles": len(cycles),
        "seconds_per_cycle": total / len(cycles),
        "seconds_per_stage": {stage: value / len(cycles) for stage, value in seconds.items()},
        "tokens_per_second": tokens / total,
        "episodes_per_second": sum(cycle["episodes"] for cycle in cycles) / total,
        "idle_share": max(0.0, 1 - (engine + seconds.get("learn", 0.0)) / total),
    }


def agent_prompts(run_dir: Path, limit: int) -> list[list[int]]:
    """Return prompts that the run's agent answered."""
    prompts: list[list[int]] = []
    with Archive.open(run_dir, read_only=True) as archive:
        for page in archive.trajectories(run_dir.name):
            for trajectory in page:
                for sequence in trajectory.sequences:
                    prompts.append([token for s in sequence if not s.sampled for token in s.token_ids])
                    if len(prompts) == limit:
                        return prompts
    return prompts


async def ours(config: RunConfig, prompts: Sequence[Sequence[int]]) -> float:
    """Return the engine's sampled tokens per second."""
    location = model_location(config.model.name)
    engine = await TransformersEngine.open(
        location, ChatTokenizer(location), config.agent.engine, dtype=config.model.dtype
    )

    async def answer(some: Sequence[Sequence[int]]) -> int:
        asked = [
            Prompt(tuple(ids), temperature=1.0, max_tokens=config.agent.max_tokens, seed=seed)
            for seed, ids in enumerate(some)
        ]
        return sum([len(reply.token_ids) async for reply in engine.generate(asked, seconds=600)])

    try:
        await answer(prompts[:WARM_UP])
        start = time.perf_counter()
        tokens = await answer(prompts)
        return tokens / (time.perf_counter() - start)
    finally:
        await engine.close()


def peer(config: RunConfig, prompts: Sequence[Sequence[int]]) -> float:
    """Return the sampled tokens per second of transformers' ``generate``."""
    location = model_location(config.model.name)
    model = AutoModelForCausalLM.from_pretrained(location).eval()
    (end, *_) = ChatTokenizer(location).end_tokens()
    torch.manual_seed(0)

    def answer(some: Sequence[Sequence[int]]) -> int:
        width = max(map(len, some))
        ids = torch.tensor([[end] * (width - len(p)) + list(p) for p in some])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in some])
        replies = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=config.agent.max_tokens,
            eos_token_id=end,
            pad_token_id=end,
        )[:, width:]
        return sum(row.index(end) + 1 if end in row else len(row) for row in replies.tolist())

    with torch.inference_mode():
        answer(prompts[:WARM_UP])
        size = config.agent.engine.slots
        start = time.perf_counter()
        tokens = sum(answer(prompts[at : at + size]) for at in range(0, len(prompts), size))
        return tokens / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller measurement, within 45 s")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    configure_logging("WARNING")
    cycles, environments, limit = (2, 5, 512) if arguments.quick else (8, 20, 4096)
    config = load_config(
        preset="quickstart",
        overrides=[
            f"run.cycles={cycles}",
            "run.minutes=null",
            "evaluation.suite=none",
            f"designer.environments={environments}",
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "loop"
        figures = loop_figures(measured_run(config, run_dir))
        prompts = agent_prompts(run_dir, limit)
    engine, transformers = asyncio.run(ours(config, prompts)), peer(config, prompts)
    figures |= {
        "engine_tokens_per_second": engine,
        "transformers_tokens_per_second": transformers,
        "ratio": engine / transformers,
        "prompts": len(prompts),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
    for stage, seconds in figures["seconds_per_stage"].items():
        print(f"{stage:12} {seconds:7.2f} s a cycle")
    print(f"whole cycle  {figures['seconds_per_cycle']:7.2f} s, nobody works for {figures['idle_share']:.0%} of it")
    print(
        f"{figures['tokens_per_second']:.0f} tokens/s and {figures['episodes_per_second']:.1f} episodes/s in the loop"
    )
    print(f"engine {engine:.0f} tokens/s, transformers generate {transformers:.0f}: ratio {figures['ratio']:.2f}")
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
