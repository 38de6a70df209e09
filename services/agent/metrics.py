"""Metrics of the agent service and its engine."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

EPISODES = Counter("spade_agent_episodes_total", "Episodes played, by stop reason.", ["stop_reason"])
EPISODE_SECONDS = Histogram("spade_agent_episode_seconds", "Duration of an episode, waiting for a place excluded.")
TURNS = Counter("spade_agent_turns_total", "Replies of the agent.")
IN_PROGRESS = Gauge("spade_agent_episodes_in_progress", "Episodes that have a place and are being played.")
REPLAYS = Counter("spade_agent_replays_total", "Episodes begun again because their sandbox service went away.")
RETRIES = Counter("spade_agent_retries_total", "Episodes played again because the sandbox or engine failed.")

GENERATED_TOKENS = Counter("spade_agent_engine_tokens_total", "Tokens sampled.")
PROMPT_TOKENS = Counter("spade_agent_engine_prompt_tokens_total", "Prompt tokens, padding excluded.")
ENGINE_STEPS = Counter("spade_agent_engine_steps_total", "Forward passes, by kind.", ["kind"])
IN_FLIGHT = Gauge("spade_agent_engine_sequences", "Sequences that wait or are being decoded.")
SLOTS = Gauge("spade_agent_engine_slots", "Sequences that can be decoded at once.")
BUSY_SECONDS = Counter("spade_agent_engine_busy_seconds_total", "Time in which the engine had work.")
ENGINE_VERSION = Gauge("spade_agent_engine_policy_version", "Policy version that is sampled from.")
ENGINE_FAILURES = Counter("spade_agent_engine_failures_total", "Steps of the engine that failed.")
