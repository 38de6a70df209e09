"""Where the policy comes from: the shipped nano model, a folder, or a hub; and its tokenizer.

Tokens are the truth and text a view: chat messages become ids in one place, and content can never become a
special token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from spade_rl.errors import ConfigurationError
from spade_rl.prompts import Message


def model_location(name: str) -> str:
    """Return the folder or hub name that transformers loads for a configured model name."""
    if name == "nano":
        return str(resources.files("spade_rl.nano") / "assets")
    path = Path(name).expanduser()
    if path.exists() and not (path / "config.json").exists():
        raise ConfigurationError(f"{path} holds no config.json: model.name must be a folder in Hugging Face format")
    return str(path) if path.exists() else name


def load_model(location: str, dtype: str = "float32") -> Any:
    """Return the causal language model at ``location`` in evaluation mode."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # Its bars would be drawn across the run's own progress, at every new version.
    logging.disable_progress_bar()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            location, dtype=getattr(torch, dtype), output_loading_info=True
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot load the model {location}: {error}") from error
    model, found = loaded
    if missing := sorted(found["missing_keys"]):
        # transformers makes up what a checkpoint lacks.
        raise ConfigurationError(f"the model {location} lacks the weights {', '.join(missing[:5])}")
    return model.eval()


class ChatTokenizer:
    """A model's tokenizer, as both roles use it."""

    def __init__(self, location: str) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(location)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot load the tokenizer {location}: {error}") from error
        if not self._tokenizer.chat_template:
            raise ConfigurationError(f"the tokenizer {location} has no chat template, which both roles need")

        self._control = sorted({*self._tokenizer.all_special_tokens, *self._tokenizer.get_added_vocab()})

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt's token ids, ending where the assistant's reply begins.

        A document, a program or an observation may spell out one of the model's control tokens. Such content is
        encoded apart from the template around it, so that it stays text.
        """
        return self._encode(messages, self._rendered)

    def encode_after_reply(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids between the text of one reply and that of the next, with ``messages`` between them.

        They begin with what ends the assistant's turn. A conversation goes on by appending them to the ids that
        were sampled, so that no reply is ever encoded again.
        """
        reply = "\ue002"
        before: list[Message] = [{"role": "user", "content": ""}, {"role": "assistant", "content": reply}]
        return self._encode(messages, lambda shown: self._rendered([*before, *shown]).split(reply, 1)[1])

    def _encode(self, messages: Sequence[Message], render: Callable[[Sequence[Message]], str]) -> list[int]:
        if not any(token in message["content"] for message in messages for token in self._control):
            return self._ids(render(messages), control=True)
        marks = [f"\ue000{index}\ue001" for index in range(len(messages))]
        rendered = render([{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)])
        ids: list[int] = []
        for piece in re.split("(\ue000[0-9]+\ue001)", rendered):
            content = piece in marks
            ids += self._ids(messages[marks.index(piece)]["content"] if content else piece, control=not content)
        return ids

    def _rendered(self, messages: Sequence[Message]) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                [{"role": m["role"], "content": m["content"]} for m in messages],
                add_generation_prompt=True,
                tokenize=False,
            )
        )

    def _ids(self, text: str, *, control: bool) -> list[int]:
        encoded = self._tokenizer(text, add_special_tokens=False, split_special_tokens=not control)
        return [int(token) for token in encoded["input_ids"]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return ids as text, without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def end_tokens(self) -> frozenset[int]:
        """Return the ids that end a reply."""
        ids = self._tokenizer.eos_token_id
        return frozenset(ids if isinstance(ids, list) else [ids])
