"""The policy's log-probabilities at the trained tokens, and nowhere else.

The body runs over whole padded rows; the head, whose logits are by far the largest tensors, runs only where a trained
token is predicted, in float32 (as the samplers do), and piece by piece when the pieces are large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everyone uses
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spade_rl.errors import ConfigurationError
from spade_rl.models import load_model

# Logits that are held at once, in elements: 512 MB in float32.
LOGITS = 2**27


class Scores(NamedTuple):
    """By trained token [N], in nats, at the sampling temperature.

    ``log_probs`` of the token; ``entropy`` of the distribution; ``divergence`` from the reference (KL, exact), 0 without one.
    """

    log_probs: Tensor
    entropy: Tensor
    divergence: Tensor


class Float32Head(nn.Linear):
    """A language-model head that multiplies in float32, whatever the body's type; shares the given parameters."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__(head.in_features, head.out_features, bias=head.bias is not None, device="meta")
        self.weight = head.weight
        if head.bias is not None:
            self.bias = head.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [..., V] of ``hidden`` [..., H]."""
        with torch.autocast(hidden.device.type, enabled=False):
            return F.linear(hidden.float(), self.weight.float(), None if self.bias is None else self.bias.float())


class Policy(nn.Module):
    """A causal language model of transformers as a scorer of sampled tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        model.set_output_embeddings(Float32Head(model.get_output_embeddings()))

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the head tells apart."""
        return int(self.model.get_output_embeddings().out_features)

    def hidden(self, token_ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the last hidden states [N, H] at the given places of ``token_ids`` [B, T]."""
        states: Tensor = self.model.base_model(input_ids=token_ids, use_cache=False).last_hidden_state
        return states[rows, columns]

    def head(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [N, V]."""
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def score(
        self,
        hidden: Tensor,
        targets: Tensor,
        temperatures: Tensor,
        *,
        reference: tuple[Policy, Tensor] | None = None,
        entropy_gradient: bool = False,
    ) -> Scores:
        """Score ``targets`` [N] from ``hidden`` [N, H]; ``reference`` is another policy and its hidden states."""
        other, other_hidden = reference if reference is not None else (None, hidden.detach())

        def piece(hidden: Tensor, targets: Tensor, temperatures: Tensor, other_hidden: Tensor) -> Scores:
            log_p = F.log_softmax(self.head(hidden) / temperatures[:, None], dim=-1)
            with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
                entropy = -(log_p.exp() * log_p).sum(-1)
            divergence = torch.zeros_like(entropy)
            if other is not None:
                with torch.no_grad():
                    log_q = F.log_softmax(other.head(other_hidden) / temperatures[:, None], dim=-1)
                divergence = (log_p.exp() * (log_p - log_q)).sum(-1)
            return Scores(log_p.gather(-1, targets[:, None])[:, 0], entropy, divergence)

        size = max(1, LOGITS // self.vocabulary)
        if len(targets) <= size:
            return piece(hidden, targets, temperatures, other_hidden)
        split = [part.split(size) for part in (hidden, targets, temperatures, other_hidden)]
        scores = [checkpoint(piece, *parts, use_reentrant=False) for parts in zip(*split, strict=True)]
        return Scores(*(torch.cat(parts) for parts in zip(*scores, strict=True)))


def load_policy(location: str, dtype: str) -> Policy:
    """Return the policy at ``location``, without dropout.

    A model whose own logits are more than its head (soft capping, scaling) would be trained on other probabilities than it
    samples with; it is refused.
    """
    model = load_model(location, dtype)
    probe = torch.arange(8).remainder(model.config.get_text_config().vocab_size)[None]
    with torch.no_grad():
        expected = model(input_ids=probe, use_cache=False).logits[0].float()
        policy = Policy(model)
        got = policy.head(policy.hidden(probe, torch.zeros(8, dtype=torch.long), torch.arange(8)))
    tolerance = (1e-4 if dtype == "float32" else 5e-2) * max(1.0, float(expected.abs().max()))
    if not torch.allclose(expected, got, rtol=0, atol=tolerance):
        raise ConfigurationError(
            f"the model {location} changes its logits after the head (soft capping or scaling), which the learner does not "
            "support; choose another model.name"
        )
    return policy
