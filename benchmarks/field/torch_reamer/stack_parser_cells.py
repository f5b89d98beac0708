"""Differentiable memories for a shift-reduce style sentence parser.

Three building blocks we swap in and out of the parser's controller:

* a *strength* stack in the manner of Grefenstette et al. (2015): every value has a fractional presence, pops eat presence from the
  top, reads gather one unit of presence from the top;
* a *cell* stack in the manner of Joulin & Mikolov (2015): fixed depth, and push / pop / keep are mixed by probabilities;
* the ordered-neurons cell (Shen et al., 2019), whose master gates say how deep in the tree an update reaches.

All are written with hand derivatives since the controllers call them once per token and the autograd graphs got long.
"""
import math
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.autograd import Function


def _above(strength):
    """Presence lying above each entry; entry T-1 is the top of the stack."""
    total = strength.flip(-1).cumsum(-1).flip(-1)
    return total - strength


class StrengthStackRead(Function):
    """One pop followed by one read.

    Args:
        values: (batch, time, width) everything pushed so far, oldest first.
        strength: (batch, time) presences, non-negative.
        pop: (batch,) how much presence is taken from the top first, non-negative.

    Returns:
        read (batch, width) and the strengths after the pop (batch, time).
    """

    @staticmethod
    def forward(values, strength, pop):
        left_to_pop = torch.relu(pop[:, None] - _above(strength))
        kept = torch.relu(strength - left_to_pop)
        room = torch.relu(1.0 - _above(kept))
        share = torch.minimum(kept, room)
        return torch.einsum("bt,btw->bw", share, values), kept

    @staticmethod
    def setup_context(ctx, inputs, output):
        values, strength, pop = inputs
        _, kept = output
        ctx.save_for_backward(values, strength, pop, kept)

    @staticmethod
    def backward(ctx, g_read, g_kept):
        values, strength, pop, kept = ctx.saved_tensors
        room = 1.0 - _above(kept)
        share = torch.minimum(kept, room.clamp(min=0))
        g_values = share[:, :, None] * g_read[:, None, :]

        g_share = torch.einsum("bw,btw->bt", g_read, values)
        whole = kept < room
        # an entry that is cut short by what lies above it loses presence as any of those above gains some
        cut = torch.where(~whole & (room > 0), g_share, torch.zeros_like(g_share))
        below = cut.cumsum(-1) - cut
        g_kept = g_kept + torch.where(whole, g_share, torch.zeros_like(g_share)) - below

        rest = pop[:, None] - _above(strength)
        alive = strength > rest.clamp(min=0)
        g_alive = torch.where(alive, g_kept, torch.zeros_like(g_kept))
        hit = torch.where(rest > 0, g_alive, torch.zeros_like(g_alive))
        g_strength = g_alive + (hit.cumsum(-1) - hit)
        g_pop = -hit.sum(-1)
        return g_values, g_strength, g_pop


class CellStackStep(Function):
    """stack (B, depth, W), top (B, W), action (B, 3) as push, pop, keep; `empty` (W,) slides in from the bottom on a pop.

    On a push the deepest cell falls off. Returns the new stack.
    """

    @staticmethod
    def forward(ctx, stack, top, action, empty):
        push, pop, keep = (a.view(-1, 1, 1) for a in action.unbind(-1))
        bottom = empty.expand(stack.shape[0], 1, -1)
        pushed = torch.cat([top.unsqueeze(1), stack[:, :-1]], dim=1)
        popped = torch.cat([stack[:, 1:], bottom], dim=1)
        ctx.save_for_backward(stack, top, action)
        return push * pushed + pop * popped + keep * stack

    @staticmethod
    def backward(ctx, grad):
        stack, top, action = ctx.saved_tensors
        push, pop, keep = (a.view(-1, 1, 1) for a in action.unbind(-1))

        g_stack = keep * grad
        g_stack[:, :-1] += (push * grad)[:, 1:]
        g_stack[:, 1:] += (pop * grad)[:, :-1]
        g_top = push[:, 0] * grad[:, 0]
        g_empty = (pop[:, 0] * grad[:, -1]).sum(0)

        g_push = (grad[:, 1:] * stack[:, :-1]).sum((1, 2)) + (grad[:, 0] * top).sum(-1)
        g_pop = (grad[:, :-1] * stack[:, 1:]).sum((1, 2))
        g_keep = (grad * stack).sum((1, 2))
        return g_stack, g_top, torch.stack([g_push, g_pop, g_keep], -1), g_empty


class MasterGates(NamedTuple):
    forget: torch.Tensor  # (B, hidden // chunk)
    write: torch.Tensor


def cumax(x):
    return torch.softmax(x, -1).cumsum(-1)


class OrderedNeuronUpdate(Function):
    """Cell update of the ordered-neurons LSTM.

    cell, forget, write, candidate: (B, hidden), gates already squashed.
    level_forget, level_write: (B, hidden // chunk) logits of the master gates; each level governs `chunk` neighbouring neurons.
    """

    @staticmethod
    def forward(ctx, cell, forget, write, candidate, level_forget, level_write, chunk: int):
        sf, sw = torch.softmax(level_forget, -1), torch.softmax(level_write, -1)
        mf = sf.cumsum(-1).repeat_interleave(chunk, -1)
        mw = (1 - sw.cumsum(-1)).repeat_interleave(chunk, -1)
        overlap = mf * mw
        f_hat = forget * overlap + (mf - overlap)
        w_hat = write * overlap + (mw - overlap)
        ctx.save_for_backward(cell, forget, write, candidate, sf, sw, mf, mw)
        ctx.chunk = chunk
        return f_hat * cell + w_hat * candidate

    @staticmethod
    def backward(ctx, grad):
        cell, forget, write, candidate, sf, sw, mf, mw = ctx.saved_tensors
        overlap = mf * mw
        gf, gw = grad * cell, grad * candidate
        g_cell = grad * (forget * overlap + mf - overlap)
        g_cand = grad * (write * overlap + mw - overlap)
        g_overlap = gf * (forget - 1) + gw * (write - 1)
        levels = (grad.shape[0], ctx.chunk, sf.shape[-1])
        g_mf = (gf + g_overlap * mw).reshape(levels).sum(1)
        g_mw = (gw + g_overlap * mf).reshape(levels).sum(1)

        def through_cumax(g, s):
            g = g.flip(-1).cumsum(-1).flip(-1)
            return s * (g - (g * s).sum(-1, keepdim=True))

        return (g_cell, gf * overlap, gw * overlap, g_cand, through_cumax(g_mf, sf), through_cumax(-g_mw, sw), None)


class OrderedNeuronCell(nn.Module):
    def __init__(self, width: int, hidden: int, chunk: int = 4):
        super().__init__()
        if hidden % chunk:
            raise ValueError("hidden must be a multiple of chunk")
        self.hidden, self.chunk = hidden, chunk
        self.mix = nn.Linear(width + hidden, 4 * hidden + 2 * (hidden // chunk))

    def forward(self, x, state: Optional[tuple] = None):
        h, c = state if state is not None else (x.new_zeros(x.shape[0], self.hidden),) * 2
        n = self.hidden
        f, w, o, z, lf, lw = self.mix(torch.cat([x, h], -1)).split([n, n, n, n, n // self.chunk, n // self.chunk], -1)
        c = OrderedNeuronUpdate.apply(c, f.sigmoid(), w.sigmoid(), z.tanh(), lf, lw, self.chunk)
        return o.sigmoid() * c.tanh(), c

    def gates(self, logits) -> MasterGates:
        lf, lw = logits.chunk(2, -1)
        return MasterGates(cumax(lf), 1 - cumax(lw))


class CellStack(nn.Module):
    """Stack with a learnable value for `nothing there`, zero at the start."""

    def __init__(self, depth, width):
        super().__init__()
        self.depth = depth
        self.empty = nn.Parameter(torch.zeros(width))
        self.policy = nn.Linear(width, 3)
        nn.init.normal_(self.policy.weight, std=1 / math.sqrt(width))

    def forward(self, xs):
        stack = self.empty.expand(xs.shape[0], self.depth, -1)
        for x in xs.unbind(1):
            stack = CellStackStep.apply(stack, x, self.policy(x).softmax(-1), self.empty)
        return stack
