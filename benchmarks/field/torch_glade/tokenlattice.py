"""Token <-> word <-> span plumbing for sequence labelling and summarisation."""
import torch
from torch import nn
from torch.autograd import Function


class PointerScatterFunction(Function):
    """Pointer-generator output distribution over an extended vocabulary.

    Args:
        vocab_probs (Tensor): generator distribution, (B, V).
        attn (Tensor): copy attention over the source, (B, S).
        p_gen (Tensor): generation probability, (B, 1).
        source_ids (LongTensor): extended-vocabulary id of every source token, (B, S),
            ids from V on are out-of-vocabulary words of this source. A word that stands
            several times in the source collects the attention of all its positions.
        n_oov (int): number of extra slots.
        source_mask (BoolTensor or None): True at real tokens, padding copies nothing.

    Returns:
        Tensor: (B, V + n_oov)
    """

    @staticmethod
    def forward(vocab_probs, attn, p_gen, source_ids, n_oov, source_mask):
        B, V = vocab_probs.shape
        out = vocab_probs.new_zeros(B, V + n_oov)
        out[:, :V] = p_gen * vocab_probs
        copy = (1 - p_gen) * attn
        if source_mask is not None:
            copy = copy * source_mask
        return out.scatter_add_(1, source_ids, copy)

    @staticmethod
    def setup_context(ctx, inputs, output):
        vocab_probs, attn, p_gen, source_ids, _, source_mask = inputs
        ctx.has_mask = source_mask is not None
        extra = (source_mask,) if ctx.has_mask else ()
        ctx.save_for_backward(vocab_probs, attn, p_gen, source_ids, *extra)

    @staticmethod
    def backward(ctx, grad):
        vocab_probs, attn, p_gen, source_ids, *extra = ctx.saved_tensors
        g_vocab = grad[:, : vocab_probs.shape[1]]
        g_copy = grad.gather(1, source_ids)
        if ctx.has_mask:
            g_copy = g_copy * extra[0]
        d_vocab = d_attn = d_gen = None
        if ctx.needs_input_grad[0]:
            d_vocab = p_gen * g_vocab
        if ctx.needs_input_grad[1]:
            d_attn = (1 - p_gen) * g_copy
        if ctx.needs_input_grad[2]:
            d_gen = (vocab_probs * g_vocab).sum(1, keepdim=True) - (attn * g_copy).sum(1, keepdim=True)
        return d_vocab, d_attn, d_gen, None, None, None


class SubwordMeanPool(Function):
    """Mean of the subword states of every word.

    hidden is (B, T, D); word_ids is (B, T) as fast tokenizers give it, with -1 at special
    tokens and padding, which belong to no word. Words without any subword (truncation) come
    out as zero. Output: (B, n_words, D).
    """

    @staticmethod
    def forward(ctx, hidden, word_ids, n_words):
        B, T, D = hidden.shape
        real = (word_ids >= 0).to(hidden.dtype)
        slot = word_ids.clamp(min=0)
        count = hidden.new_zeros(B, n_words).scatter_add_(1, slot, real).clamp_(min=1)
        total = hidden.new_zeros(B, n_words, D)
        total.scatter_add_(1, slot.unsqueeze(-1).expand(-1, -1, D), hidden * real.unsqueeze(-1))
        ctx.save_for_backward(slot, count)
        return total / count.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        slot, count = ctx.saved_tensors
        share = grad / count.unsqueeze(-1)
        index = slot.unsqueeze(-1).expand(-1, -1, grad.shape[-1])
        return share.gather(1, index), None, None


class SpanMaxFunction(Function):
    """Max-pooled span representations.

    tokens is (T, D), spans an integer table (S, 2) of half-open [start, end) ranges, never
    empty, in any order; spans may overlap or nest as candidate mentions do. Returns the
    pooled (S, D) values and the winning token index per feature, which has no gradient.
    """

    @staticmethod
    def forward(ctx, tokens, spans):
        pos = torch.arange(tokens.shape[0], device=tokens.device)
        inside = (pos >= spans[:, :1]) & (pos < spans[:, 1:])
        filled = tokens.unsqueeze(0).masked_fill(~inside.unsqueeze(-1), float("-inf"))
        pooled, winner = filled.max(dim=1)
        ctx.mark_non_differentiable(winner)
        ctx.save_for_backward(winner)
        ctx.length = tokens.shape[0]
        return pooled, winner

    @staticmethod
    def backward(ctx, grad, _grad_winner):
        (winner,) = ctx.saved_tensors
        g_tokens = grad.new_zeros(ctx.length, grad.shape[1])
        g_tokens.scatter_(0, winner, grad)
        return g_tokens, None


def extended_distribution(vocab_logits, attn, p_gen, source_ids, n_oov=0, source_mask=None):
    probs = torch.softmax(vocab_logits, dim=-1)
    return PointerScatterFunction.apply(probs, attn, p_gen, source_ids, n_oov, source_mask)


def words_from_subwords(hidden, word_ids, n_words=None):
    """Pool subword states; ``n_words`` defaults to the longest sentence of the batch."""
    if n_words is None:
        n_words = int(word_ids.max()) + 1
    return SubwordMeanPool.apply(hidden, word_ids, n_words)


class MentionScorer(nn.Module):
    """Scores candidate spans from boundary states and the pooled content."""

    def __init__(self, dim: int, hidden: int = 64):
        super().__init__()
        self.ffn = nn.Sequential(nn.Linear(3 * dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, tokens, spans):
        pooled, _ = SpanMaxFunction.apply(tokens, spans)
        ends = torch.cat([tokens[spans[:, 0]], tokens[spans[:, 1] - 1], pooled], dim=-1)
        return self.ffn(ends).squeeze(-1)


class WordTagger(nn.Module):
    def __init__(self, encoder: nn.Module, dim: int, n_tags: int):
        super().__init__()
        self.encoder = encoder
        self.out = nn.Linear(dim, n_tags)

    def forward(self, token_embeddings, word_ids):
        return self.out(words_from_subwords(self.encoder(token_embeddings), word_ids))
