"""The nano model's tokenizer: byte-level BPE in which code, prose and digits keep apart.

A line of code may become one token, so that a whole class takes about a hundred; words of prose are tokenized
alike in a document, in a program's word list and in an observation, so that copying is copying of tokens; every
digit is a token of its own.

Text can never smuggle in a role token: the chat template writes ``<|`` of any content as ``< |``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, END, SYSTEM, USER, ASSISTANT = SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
VOCABULARY = 2048
CONTEXT = 1024

_PIECES = "|".join(
    (
        r"import random",
        r"\n(?: +|class )[^\d\"\n]*",  # a line of code up to a digit or a list of words
        r"\"(?! )[^\d\"\n]*",  # what follows a list of words
        r"(?<=\d)[)\]:},.][^\d\"\n]*",  # code after a digit
        r" ?\p{L}+",
        r" ?\d",
        r" ?[^\s\p{L}\d]+",
        r"\s+",
    )
)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] | replace('<|', '< |') + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn the vocabulary from texts that hold code, prose and observations in about the proportions of use."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Read a tokenizer that was saved with ``save_pretrained``."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return tokenizer
