"""What sandboxes on one host must not share."""

import itertools

from spade_rl.config import Isolation, SandboxSection
from spade_rl.sandbox.launch import setup_of
from spade_rl.sandbox.limits import USERS
from spade_rl.sandbox.opening import open_pool


async def test_no_two_sandboxes_share_users():
    # A zygote ends every process of its own users that it does not know: in a shared range, another's workers.
    async with open_pool(SandboxSection(isolation=Isolation.PROCESS)) as pool:
        firsts = sorted(setup_of(pool._home, f"s{number}").first_user for number in range(1000))
    assert all(later - earlier >= USERS for earlier, later in itertools.pairwise(firsts))
    assert firsts[-1] + USERS < 2**32 - 2
