"""Decoder of a touch keyboard: taps, typo channel, lexicon and fusion.

A tap is scored against each key by a bivariate normal with a learned offset,
spread and tilt (people hit the keys low and outward).  The scores are fused
with a character language model, and whole words are scored by summing all
alignments between the intended letters and the taps, which may contain
spurious and missing letters.  Suggestions shown after a prefix use the mass of
the lexicon under each node of a prefix trie.

Coordinates are in key widths, with the origin at the top left of ``q``.
"""

from __future__ import annotations

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
ROW_SHIFT = (0.0, 0.25, 0.75)
LETTERS = "".join(ROWS)
LETTER_ID = {c: i for i, c in enumerate(LETTERS)}

LOG_TWO_PI = math.log(2.0 * math.pi)
NO_MASS = -30.0
HIDDEN_KEY = -1.0e4


def key_centres() -> torch.Tensor:
    """(26, 2) centres of the letter keys."""
    out = []
    for y, (row, shift) in enumerate(zip(ROWS, ROW_SHIFT)):
        out += [(x + 0.5 + shift, y + 0.5) for x in range(len(row))]
    return torch.tensor(out)


class TapKeyLogProb(Function):
    """Log density of every tap under every key.

    touch: (..., 2); centre: (K, 2); log_sd: (K, 2); tilt: (K,), whose tanh is the
    correlation of the horizontal and vertical misses.  Gives (..., K).
    """

    @staticmethod
    def forward(ctx, touch, centre, log_sd, tilt):
        rho = torch.tanh(tilt)
        one = 1.0 - rho.square()
        z = (touch.unsqueeze(-2) - centre) * torch.exp(-log_sd)
        zx, zy = z.unbind(-1)
        quad = (zx.square() - 2.0 * rho * zx * zy + zy.square()) / one
        ctx.save_for_backward(z, log_sd, rho, quad)
        return -0.5 * quad - 0.5 * torch.log(one) - log_sd.sum(-1) - LOG_TWO_PI

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        z, log_sd, rho, quad = ctx.saved_tensors
        one = 1.0 - rho.square()
        zx, zy = z.unbind(-1)
        # d logp / d z
        dz = torch.stack((rho * zy - zx, rho * zx - zy), -1) / one.unsqueeze(-1)
        dz = dz * grad.unsqueeze(-1)
        d_delta = dz * torch.exp(-log_sd)
        lead = tuple(range(grad.dim() - 1))

        grad_touch = d_delta.sum(-2)
        grad_centre = -d_delta
        grad_sd = -(dz * z) - grad.unsqueeze(-1)
        # d/d rho of (-quad/2 - log(1 - rho^2)/2), then through tanh
        grad_tilt = grad * (zx * zy - rho * quad + rho)
        if lead:
            grad_centre = grad_centre.sum(lead)
            grad_sd = grad_sd.sum(lead)
            grad_tilt = grad_tilt.sum(lead)
        return grad_touch, grad_centre, grad_sd, grad_tilt


class KeyPosteriorFusion(Function):
    """Fuse the spatial score with the language model.

    Args:
        spatial (Tensor[B, K]): log densities of the tap.
        language (Tensor[B, K]): log probabilities of the next letter.
        weight (Tensor[B]): language weight of each user.
        temperature (Tensor[]): shared softening.
        shown (BoolTensor[K] or None): keys present in the layout.

    Returns:
        log posterior (B, K), with ``HIDDEN_KEY`` at the keys not shown, and its
        entropy (B,), used to decide when to widen the suggestion strip.
    """

    @staticmethod
    def forward(ctx, spatial, language, weight, temperature, shown=None):
        logits = (spatial + weight.unsqueeze(-1) * language) / temperature
        scored = logits
        if shown is not None:
            scored = logits.masked_fill(~shown, HIDDEN_KEY * 10)
        logp = torch.log_softmax(scored, -1)
        prob = logp.exp()
        entropy = -(prob * logp).sum(-1)
        ctx.shown = shown
        ctx.save_for_backward(language, weight, temperature, logits, logp, entropy)
        if shown is not None:
            logp = logp.masked_fill(~shown, HIDDEN_KEY)
        return logp, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_logp, grad_entropy):
        language, weight, temperature, logits, logp, entropy = ctx.saved_tensors
        prob = logp.exp()
        if ctx.shown is not None:
            grad_logp = grad_logp.masked_fill(~ctx.shown, 0.0)
        d_post = grad_logp - prob * grad_logp.sum(-1, keepdim=True)
        d_ent = -grad_entropy.unsqueeze(-1) * prob * (logp + entropy.unsqueeze(-1))
        d_logits = (d_post + d_ent) / temperature
        grad_language = weight.unsqueeze(-1) * d_logits
        grad_weight = (d_post * language).sum(-1) / temperature
        grad_temperature = -(d_logits * logits).sum()
        return d_logits, grad_language, grad_weight, grad_temperature, None


class EditChannelLogLik(Function):
    """Log probability of the typed taps given the intended word.

    Sums over every alignment of N intended letters with M taps, each step a
    match, a skipped letter or a spurious tap:

        alpha[i, j] = lse(alpha[i-1, j-1] + match[i-1, j-1],
                          alpha[i-1, j]   + skip[i-1],
                          alpha[i, j-1]   + spurious[j-1])

    match is (B, N, M), skip (B, N), spurious (B, M); the words and the tap
    sequences are padded at the end, their true lengths being in n_len and m_len.
    """

    @staticmethod
    def forward(ctx, match, skip, spurious, n_len, m_len):
        batch, n, m = match.shape
        alpha = match.new_full((batch, n + 1, m + 1), -math.inf)
        alpha[:, 0, 0] = 0.0
        for i in range(n + 1):
            for j in range(m + 1):
                if i == 0 and j == 0:
                    continue
                terms = []
                if i and j:
                    terms.append(alpha[:, i - 1, j - 1] + match[:, i - 1, j - 1])
                if i:
                    terms.append(alpha[:, i - 1, j] + skip[:, i - 1])
                if j:
                    terms.append(alpha[:, i, j - 1] + spurious[:, j - 1])
                alpha[:, i, j] = torch.logsumexp(torch.stack(terms), 0)
        rows = torch.arange(batch, device=match.device)
        total = alpha[rows, n_len, m_len]
        ctx.save_for_backward(match, skip, spurious, n_len, m_len, alpha, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_total):
        match, skip, spurious, n_len, m_len, alpha, total = ctx.saved_tensors
        batch, n, m = match.shape
        rows = torch.arange(batch, device=match.device)
        ends = torch.full_like(alpha, -math.inf)
        ends[rows, n_len, m_len] = 0.0
        beta = torch.full_like(alpha, -math.inf)
        for i in range(n, -1, -1):
            for j in range(m, -1, -1):
                terms = [ends[:, i, j]]
                if i < n and j < m:
                    terms.append(beta[:, i + 1, j + 1] + match[:, i, j])
                if i < n:
                    terms.append(beta[:, i + 1, j] + skip[:, i])
                if j < m:
                    terms.append(beta[:, i, j + 1] + spurious[:, j])
                beta[:, i, j] = torch.logsumexp(torch.stack(terms), 0)
        z = total[:, None, None]
        scale = grad_total[:, None, None]
        on_match = torch.exp(alpha[:, :n, :m] + match + beta[:, 1:, 1:] - z)
        on_skip = torch.exp(alpha[:, :n, :] + skip[:, :, None] + beta[:, 1:, :] - z)
        on_spurious = torch.exp(alpha[:, :, :m] + spurious[:, None, :] + beta[:, :, 1:] - z)
        return (
            scale * on_match,
            (scale * on_skip).sum(2),
            (scale * on_spurious).sum(1),
            None,
            None,
        )


class PrefixMass(Function):
    """Log mass of the lexicon below each trie node.

    ``path`` is an int64 table (W, D): the nodes passed by each word, from the
    root on, filled with -1 past its last letter.  Nodes under which no word
    lies get ``NO_MASS``.
    """

    @staticmethod
    def forward(ctx, word_scores, path, n_nodes):
        valid = path >= 0
        word, depth = valid.nonzero(as_tuple=True)
        node = path[word, depth]
        batch = word_scores.shape[0]
        spread = word_scores[:, word]
        index = node.expand(batch, -1)
        peak = word_scores.new_full((batch, n_nodes), -math.inf)
        peak = peak.scatter_reduce(1, index, spread, "amax", include_self=True)
        empty = torch.isinf(peak)
        peak = peak.masked_fill(empty, 0.0)
        total = word_scores.new_zeros(batch, n_nodes)
        total = total.scatter_add(1, index, torch.exp(spread - peak[:, node]))
        mass = torch.where(empty, torch.full_like(peak, NO_MASS),
                           peak + total.clamp_min(1e-30).log())
        ctx.save_for_backward(word_scores, word, node, mass)
        return mass

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mass):
        word_scores, word, node, mass = ctx.saved_tensors
        share = torch.exp(word_scores[:, word] - mass[:, node])
        grad = torch.zeros_like(word_scores)
        grad.index_add_(1, word, share * grad_mass[:, node])
        return grad, None, None


def build_trie(words: List[str]) -> Tuple[torch.Tensor, Dict[str, int]]:
    """Node table of the words and the node number of each prefix."""
    nodes: Dict[str, int] = {"": 0}
    depth = max(len(w) for w in words) + 1
    path = torch.full((len(words), depth), -1, dtype=torch.long)
    for w, word in enumerate(words):
        for d in range(len(word) + 1):
            path[w, d] = nodes.setdefault(word[:d], len(nodes))
    return path, nodes


class TapModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", key_centres())
        k = len(LETTERS)
        self.offset = nn.Parameter(torch.zeros(k, 2))
        self.log_sd = nn.Parameter(torch.full((k, 2), -1.0))
        self.tilt = nn.Parameter(torch.zeros(k))

    def forward(self, touch: torch.Tensor) -> torch.Tensor:
        return TapKeyLogProb.apply(touch, self.grid + self.offset, self.log_sd, self.tilt)


class LetterDecoder(nn.Module):
    """Next-letter posterior of one tap, per user."""

    def __init__(self, users: int, uncertainty_cost: float = 0.1) -> None:
        super().__init__()
        self.taps = TapModel()
        self.log_weight = nn.Parameter(torch.zeros(users))
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.uncertainty_cost = uncertainty_cost

    def forward(self, touch, language, user, shown: Optional[torch.Tensor] = None):
        spatial = self.taps(touch)
        return KeyPosteriorFusion.apply(
            spatial, language, self.log_weight.exp()[user], self.log_temperature.exp(), shown
        )

    def loss(self, touch, language, user, letter, shown=None):
        logp, entropy = self(touch, language, user, shown)
        return F.nll_loss(logp, letter) + self.uncertainty_cost * entropy.mean()


class WordChannel(nn.Module):
    """Scores candidate words against a sequence of taps."""

    def __init__(self, taps: TapModel) -> None:
        super().__init__()
        self.taps = taps
        self.skip_logit = nn.Parameter(torch.full((len(LETTERS),), -3.0))
        self.spurious = nn.Parameter(torch.tensor(-6.0))

    def forward(self, touch, m_len, words, n_len):
        """touch (B, M, 2), words (B, N) letter ids, both padded."""
        score = self.taps(touch)                                  # (B, M, K)
        keep = F.logsigmoid(-self.skip_logit)[words]              # (B, N)
        index = words[:, None, :].expand(-1, touch.shape[1], -1)
        match = score.gather(2, index).transpose(1, 2) + keep[:, :, None]
        skip = F.logsigmoid(self.skip_logit)[words]
        spurious = self.spurious.expand(touch.shape[:2])
        return EditChannelLogLik.apply(match, skip, spurious, n_len, m_len)


def encode(words: List[str]) -> Tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([len(w) for w in words])
    table = torch.zeros(len(words), int(lengths.max()), dtype=torch.long)
    for r, word in enumerate(words):
        table[r, : len(word)] = torch.tensor([LETTER_ID[c] for c in word])
    return table, lengths


if __name__ == "__main__":
    torch.manual_seed(0)
    lexicon = ["the", "then", "they", "this", "toe", "tie"]
    ids, lens = encode(lexicon)
    taps = TapModel()
    channel = WordChannel(taps)
    typed = key_centres()[ids[1, :4]].unsqueeze(0) + 0.2 * torch.randn(1, 4, 2)
    loglik = channel(typed.expand(len(lexicon), -1, -1), torch.full((len(lexicon),), 4), ids, lens)
    path, nodes = build_trie(lexicon)
    mass = PrefixMass.apply(loglik.unsqueeze(0), path, len(nodes))
    print({p: round(mass[0, i].item(), 2) for p, i in nodes.items() if len(p) == 2})
    decoder = LetterDecoder(users=2)
    loss = decoder.loss(typed[0], torch.zeros(4, 26), torch.tensor([0, 1, 0, 1]), ids[1, :4])
    loss.backward()
    print("loss", loss.item())
