"""The regret evaluator service."""
