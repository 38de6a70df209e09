"""Run by torchrun: two updates with every ZeRO stage asked for; the leader writes the weights after each.

Arguments: model folder, output folder, stages as digits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from learner_cases import make_samples, tiny_config
from safetensors.torch import save_file

from spade_rl.learner.deepspeed_engine import DeepSpeedEngine
from spade_rl.learner.learner import Learner
from spade_rl.learner.publish import Publisher
from spade_rl.learner.ranks import join


def main() -> None:
    model, out, stages = Path(sys.argv[1]), Path(sys.argv[2]), [int(digit) for digit in sys.argv[3]]
    ranks = join(120)
    norms: dict[str, list[float]] = {}
    for position, stage in enumerate(stages):
        # The last engine leaves the process group; the others end when told.
        config = tiny_config(model, engine="deepspeed", zero_stage=stage, steps=2)
        engine = DeepSpeedEngine(config, str(model), ranks)
        if position + 1 < len(stages):
            engine._end = engine._engine.destroy  # type: ignore[method-assign]
        if ranks.rank:
            engine.follow()
            continue
        publisher = Publisher(out / f"run{stage}" / "weights", location=str(model), dtype="float32", keep=5)
        learner = Learner(config, engine, publisher)
        first = learner.train(0, make_samples(1))
        learner.save(out / f"checkpoint{stage}")
        second = learner.train(1, make_samples(2))
        save_file(engine.export(), out / f"stage{stage}.safetensors")
        learner.load(out / f"checkpoint{stage}")
        learner.train(1, make_samples(2))
        save_file(engine.export(), out / f"resumed{stage}.safetensors")
        norms[str(stage)] = [first.metrics["gradient_norm"], second.metrics["gradient_norm"]]
        (out / "norms.json").write_text(json.dumps(norms))
        learner.close()


if __name__ == "__main__":
    main()
