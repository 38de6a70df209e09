"""A game: open a lock of three digits by asking how far each guess is off.

Check it with `spade check-env examples/environments/number_lock.py`.
"""

import random


class NumberLock:
    """The agent guesses; after each guess the lock says which digits are too low, right or too high."""

    GUESSES = 6

    def reset(self, seed):
        draw = random.Random(seed)
        self.code = [draw.randint(0, 9) for _ in range(3)]
        self.left = self.GUESSES
        return (
            f"A lock hides three digits. You have {self.left} guesses, written like 1 2 3. After each guess you "
            "are told for every digit whether yours is too low, right or too high.",
            {},
        )

    def step(self, action):
        words = action.split()
        self.left -= 1
        if len(words) != 3 or not all(len(word) == 1 and word in "0123456789" for word in words):
            answer = "That is not a guess: write three digits with spaces between them."
        else:
            guess = [int(word) for word in words]
            if guess == self.code:
                return "The lock opens.", 1.0, True, False, {}
            answer = ", ".join(self.compare(mine, hidden) for mine, hidden in zip(guess, self.code))
        if self.left == 0:
            return f"{answer}. No guesses are left.", 0.0, True, False, {}
        return f"{answer}. {self.left} guesses are left.", 0.0, False, False, {}

    @staticmethod
    def compare(mine, hidden):
        return "right" if mine == hidden else "too low" if mine < hidden else "too high"

    def solution(self):
        return [" ".join(map(str, self.code))]
