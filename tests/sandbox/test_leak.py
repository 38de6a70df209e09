from __future__ import annotations

from spade_rl.sandbox.leak import labelled_answer, points_at


def test_an_answer_behind_the_same_word_every_time_is_a_leak() -> None:
    assert labelled_answer([("sum of 3 and 4. answer: 7", ["7"]), ("sum of 1 and 1. answer: 2", ["2"])]) == "answer"
    assert labelled_answer([("7 is it", ["7"]), ("2 is it", ["2"])]) == ""


def test_material_to_choose_from_is_no_leak() -> None:
    assert labelled_answer([("smallest of 3 1 2", ["1"]), ("smallest of 5 9 4", ["4"])]) is None
    # By chance the first one is right twice: another instance tells.
    assert labelled_answer([("of 1 2", ["1"]), ("of 3 4", ["3"]), ("of 6 5", ["5"])]) is None
    assert labelled_answer([("say yes", ["yes"]), ("say yes", ["yes"])]) is None, "a matter for the trivial gate"
    assert labelled_answer([("say yes", ["yes"])]) is None


def test_a_whole_solution_in_order_is_pointed_at() -> None:
    assert points_at("do: open, walk, close.", ["open", "walk", "close"])
    assert not points_at("you may open, close or walk", ["open", "walk", "close"])
    assert not points_at("go on and on and on", ["on", "on"])
