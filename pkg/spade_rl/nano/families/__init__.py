"""The registry of families: ten that the designer learns to write, under five skills, and two for transfer."""

from __future__ import annotations

from spade_rl.nano.families.base import MAX_LEVEL, STYLES, Family, Slip, level_of, write
from spade_rl.nano.families.count import CLIMB, PACK
from spade_rl.nano.families.explore import PROBE, ROOMS
from spade_rl.nano.families.follow import CHASE, TODO
from spade_rl.nano.families.order import AFTER, LEAST
from spade_rl.nano.families.search import BISECT, FIND
from spade_rl.nano.families.transfer import MOST, SINK

DESIGNED = (CHASE, TODO, AFTER, LEAST, ROOMS, PROBE, CLIMB, PACK, BISECT, FIND)
TRANSFER = (MOST, SINK)
FAMILIES = {family.name: family for family in DESIGNED + TRANSFER}
SKILLS = {skill: tuple(f for f in DESIGNED if f.skill == skill) for skill in dict.fromkeys(f.skill for f in DESIGNED)}

# Every observation begins with its family's word, so a program's family is read off what it shows.
KEYWORDS = {
    "map": "chase", "job": "todo", "row": "after", "few": "least", "saw": "rooms", "key": "probe",
    "up": "climb", "get": "pack", "hit": "bisect", "at": "find", "big": "most", "dn": "sink",
}  # fmt: skip


def family_of(observation: str) -> str | None:
    """Return the name of the family whose observations begin like this one, or None."""
    return KEYWORDS.get(observation.split(" ", 1)[0])


__all__ = [
    "DESIGNED",
    "FAMILIES",
    "KEYWORDS",
    "MAX_LEVEL",
    "SKILLS",
    "STYLES",
    "TRANSFER",
    "Family",
    "Slip",
    "family_of",
    "level_of",
    "write",
]
