"""A tool-use environment: work through the morning of a help desk.

Check it with `spade check-env examples/environments/help_desk.py`.
"""

from spade_rl.environment import Instruction, ToolEnvironment, ToolError, call, tool

NAMES = ("Ada", "Bo", "Cem", "Dee", "Eva", "Finn")
TOPICS = ("a broken printer", "a lost password", "a slow laptop", "a missing invoice", "a locked account")
LEVELS = ("low", "normal", "high")


class HelpDesk(ToolEnvironment):
    """Tickets are found by who wrote them, and changed one at a time."""

    def build(self, rng):
        writers = rng.sample(NAMES, 4)
        numbers = rng.sample(range(100, 1000), 4)
        topics = rng.sample(TOPICS, 4)
        self.tickets = {
            number: {"from": writer, "about": topic, "level": rng.choice(LEVELS[:2]), "open": True, "agent": None}
            for number, writer, topic in zip(numbers, writers, topics)
        }
        first, second, third, _ = numbers
        a, b, c, _ = writers
        helper = rng.choice([name for name in NAMES if name not in writers])
        return [
            Instruction(
                f"The ticket of {a} is urgent: give it the highest level.",
                lambda: self.tickets[first]["level"] == "high",
                [call("set_level", ticket=first, level="high")],
            ),
            Instruction(
                f"{helper} takes over what {b} wrote about.",
                lambda: self.tickets[second]["agent"] == helper,
                [call("assign", ticket=second, agent=helper)],
            ),
            Instruction(
                f"{c} says that the problem is gone: close the ticket, with {helper} as its agent.",
                lambda: not self.tickets[third]["open"] and self.tickets[third]["agent"] == helper,
                # Only a ticket that somebody has can be closed.
                [call("assign", ticket=third, agent=helper), call("close", ticket=third)],
            ),
        ]

    @tool("Find the tickets that somebody wrote.", writer={"type": "string", "description": "a first name"})
    def find(self, writer):
        found = [{"ticket": number, **ticket} for number, ticket in self.tickets.items() if ticket["from"] == writer]
        if not found:
            raise ToolError(f"{writer[:40]} has written no ticket")
        return found

    @tool(
        "Set how urgent a ticket is.",
        ticket={"type": "integer", "minimum": 100},
        level={"type": "string", "enum": list(LEVELS)},
    )
    def set_level(self, ticket, level):
        self.open_ticket(ticket)["level"] = level

    @tool(
        "Give a ticket to an agent.",
        ticket={"type": "integer", "minimum": 100},
        agent={"type": "string", "description": "a first name"},
    )
    def assign(self, ticket, agent):
        self.open_ticket(ticket)["agent"] = agent

    @tool("Close a ticket for good; it needs an agent.", ticket={"type": "integer", "minimum": 100})
    def close(self, ticket):
        if self.open_ticket(ticket)["agent"] is None:
            raise ToolError("this ticket has no agent yet: assign it first")
        self.tickets[ticket]["open"] = False

    @tool("Count the tickets by level.")
    def statistics(self):
        return {level: sum(ticket["level"] == level for ticket in self.tickets.values()) for level in LEVELS}

    def open_ticket(self, number):
        if number not in self.tickets:
            raise ToolError(f"there is no ticket {number}")
        if not self.tickets[number]["open"]:
            raise ToolError(f"ticket {number} is closed")
        return self.tickets[number]
