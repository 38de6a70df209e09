"""Prints, as JSON, who runs this and which limits a self-test finds on a platform; run by test_selftest.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from spade_rl.config import SandboxSection
from spade_rl.sandbox.opening import open_home
from spade_rl.sandbox.probes import promised
from spade_rl.sandbox.selftest import try_limits
from spade_rl.telemetry import configure_logging


async def main(platform: str) -> dict[str, object]:
    section = SandboxSection.model_validate({"platform": platform})
    async with open_home(section) as home:
        checks = await try_limits(home, section, promised(home.runtime.isolation))
        return {
            "user": os.getuid(),
            "runtime": home.runtime.name,
            "cgroups": home.cgroups is not None,
            "limits": {check.name: check.message or check.held for check in checks},
        }


if __name__ == "__main__":
    configure_logging("WARNING")
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
