"""Published policies: ``weights/<version>/`` in Hugging Face format, which the inference engines load.

A version's folder appears whole, with the file ``COMPLETE`` written last; a folder without it is no version. The embeddings are
never tied: the head has its own tensor and the configuration says so. Versions are numbered by updates; 0 is the starting
model.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer

from spade_rl.learner.files import sweep, whole_folder

COMPLETE = "COMPLETE"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".index.json")


class Publisher:
    """Writes versions of the model at ``location`` below ``folder`` and keeps the newest ``keep``."""

    def __init__(self, folder: Path, *, location: str, dtype: str, keep: int) -> None:
        self._folder, self._location, self._keep = folder.absolute(), location, keep
        self._config = AutoConfig.from_pretrained(location)
        self._config.tie_word_embeddings = False
        self._config.get_text_config().tie_word_embeddings = False
        self._config.dtype = getattr(torch, dtype)
        self._folder.mkdir(parents=True, exist_ok=True)
        sweep(self._folder)

    def path(self, version: int) -> Path:
        """Return where a version lies."""
        return self._folder / f"{version:06d}"

    def versions(self) -> list[int]:
        """Return the complete versions, ascending."""
        return sorted(int(mark.parent.name) for mark in self._folder.glob(f"[0-9]*/{COMPLETE}"))

    def publish(self, version: int, tensors: Mapping[str, Tensor]) -> str:
        """Write a version, in place of an older one of that number, and return its path."""
        with whole_folder(self.path(version)) as folder:
            save_torch_state_dict(dict(tensors), folder)
            self._companions(folder)
            self._config.save_pretrained(folder)
            (folder / COMPLETE).touch()
        return str(self.path(version))

    def _companions(self, folder: Path) -> None:
        """Copy what is neither weights nor configuration: the tokenizer, its template, the generation defaults."""
        source = Path(self._location)
        if not source.is_dir():
            AutoTokenizer.from_pretrained(self._location).save_pretrained(folder)
            return
        for file in source.iterdir():
            if file.is_file() and not file.name.endswith(_WEIGHTS) and file.name not in ("config.json", COMPLETE):
                shutil.copyfile(file, folder / file.name)

    def prune(self, newest: int) -> None:
        """Delete all but the newest versions up to ``newest``, and those after it: a rewound run left them."""
        versions = self.versions()
        kept = [version for version in versions if version <= newest][-self._keep :]
        for version in set(versions) - set(kept):
            # The mark goes first, so that nobody takes a half-deleted version for a whole one.
            (self.path(version) / COMPLETE).unlink()
            shutil.rmtree(self.path(version), ignore_errors=True)
