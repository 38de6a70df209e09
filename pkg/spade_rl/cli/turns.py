"""An episode on the terminal, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from spade_rl.cli.output import shown


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One exchange: what was observed, what was said, and what it earned; ``action`` where it differs from ``reply``."""

    observation: str
    reply: str
    reward: float
    action: str = ""


def turns(exchanges: Iterable[ShownTurn], last_observation: str) -> RenderableType:
    """Return the turns of an episode below each other."""
    parts: list[RenderableType] = []
    for index, turn in enumerate(exchanges, start=1):
        parts.append(Rule(Text(f"turn {index}"), align="left", style="dim"))
        parts.append(shown(turn.observation))
        parts.append(Padding(shown(turn.reply, "bold cyan"), (0, 0, 0, 2)))
        if turn.action and turn.action != turn.reply.strip():
            parts.append(Padding(Text("action: ", style="dim") + shown(turn.action, "cyan"), (0, 0, 0, 2)))
        if turn.reward:
            parts.append(Padding(Text(f"reward {turn.reward:+.2f}", style="dim"), (0, 0, 0, 2)))
    parts.append(Rule(Text("end"), align="left", style="dim"))
    if last_observation:
        parts.append(shown(last_observation))
    return Group(*parts)
