import torch
import torch.nn as nn

SAME_CELL, SAME_ROW, SAME_COLUMN, HEADER, ELSEWHERE, TEXT = range(6)


def relation_ids(row, col):
    """row, col (B, T) with 0 for the question's words and row 0 for the header -> (B, T, T) in 0..5"""
    same_row = row[:, :, None] == row[:, None, :]
    same_col = col[:, :, None] == col[:, None, :]
    out = torch.full(same_row.shape, ELSEWHERE, dtype=torch.long, device=row.device)
    out[same_row] = SAME_ROW
    out[same_col] = SAME_COLUMN
    out[same_col & (row[:, None, :] == 0)] = HEADER
    out[same_row & same_col] = SAME_CELL
    text = (col == 0)
    out[text[:, :, None] | text[:, None, :]] = TEXT
    return out


class RelationAttention(torch.autograd.Function):

    @staticmethod
    def forward(q, k, v, table, relation, keep, scale, bias_at):
        bias = table[:, relation].transpose(0, 1)
        raw = q @ k.transpose(-1, -2)
        if bias_at == "logits":
            logits = raw * scale + bias
        elif bias_at == "scores":
            logits = (raw + bias) * scale
        else:
            raise ValueError("bias_at is 'logits' or 'scores'")
        logits = logits.masked_fill(~keep[:, None, None, :], torch.finfo(q.dtype).min)
        probs = torch.softmax(logits, -1)
        return probs @ v, probs

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, table, relation, keep, scale, bias_at = inputs
        _, probs = output
        ctx.mark_non_differentiable(probs)
        ctx.save_for_backward(q, k, v, relation, probs)
        ctx.scale = scale
        ctx.bins = table.shape[1]

    @staticmethod
    def backward(ctx, grad, _):
        q, k, v, relation, probs = ctx.saved_tensors
        dv = probs.transpose(-1, -2) @ grad if ctx.needs_input_grad[2] else None
        dp = grad @ v.transpose(-1, -2)
        ds = probs * (dp - (dp * probs).sum(-1, keepdim=True))
        dq = ctx.scale * (ds @ k) if ctx.needs_input_grad[0] else None
        dk = ctx.scale * (ds.transpose(-1, -2) @ q) if ctx.needs_input_grad[1] else None
        dt = None
        if ctx.needs_input_grad[3]:
            heads = ds.shape[1]
            dt = ds.new_zeros(heads, ctx.bins)
            dt.index_add_(1, relation.reshape(-1), ds.transpose(0, 1).reshape(heads, -1))
        return dq, dk, dv, dt, None, None, None, None


class CellReduce(torch.autograd.Function):

    @staticmethod
    def forward(logits, cell, num_cells, how, empty):
        padded = logits.new_zeros(logits.shape[0], num_cells + 1)
        if how == "lse":
            top = torch.full_like(padded, float("-inf")).scatter_reduce(1, cell, logits, "amax")
            mass = padded.scatter_add(1, cell, torch.exp(logits - top.gather(1, cell)))
            out = top + mass.log()
        else:
            out = padded.scatter_add(1, cell, logits)
            if how == "mean":
                out = out / padded.scatter_add(1, cell, torch.ones_like(logits)).clamp(min=1)
        n = padded.scatter_add(1, cell, torch.ones_like(logits))
        return torch.where(n > 0, out, torch.full_like(out, empty))[:, 1:]

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, cell, num_cells, ctx.how, _ = inputs
        ctx.save_for_backward(logits, cell, output)

    @staticmethod
    def backward(ctx, grad):
        logits, cell, out = ctx.saved_tensors
        outside = cell == 0
        slot = (cell - 1).clamp(min=0)
        g = grad.gather(1, slot)
        if ctx.how == "lse":
            g = g * torch.exp(torch.where(outside, 0.0, logits - out.gather(1, slot)))
        elif ctx.how == "mean":
            n = torch.zeros(cell.shape[0], grad.shape[1] + 1, dtype=grad.dtype, device=grad.device)
            n.scatter_add_(1, cell, torch.ones_like(g))
            g = g / n.gather(1, cell)
        return g.masked_fill(outside, 0.0), None, None, None, None


class AggregateExpectation(torch.autograd.Function):

    @staticmethod
    def forward(ctx, probs, values, ops, numeric, floor):
        # the average is never taken over fewer than `floor` expected cells
        p = probs * numeric
        x = torch.where(numeric, values, torch.zeros_like(values))
        total = (p * x).sum(1)
        cells = p.sum(1).clamp(min=floor)
        average = total / cells
        count = probs.sum(1)
        answers = torch.stack([count, total, average], 1)
        ctx.save_for_backward(p, x, ops, answers, cells, numeric)
        return (ops * answers).sum(1)

    @staticmethod
    def backward(ctx, grad):
        p, x, ops, answers, cells, numeric = ctx.saved_tensors
        w_count, w_total, w_average = (grad[:, None] * ops).split(1, dim=1)
        cells = cells[:, None]
        d_probs = w_count + numeric * (w_total * x + w_average * (x - answers[:, 2:]) / cells)
        d_values = p * (w_total + w_average / cells)
        return d_probs, d_values, grad[:, None] * answers, None, None


class TableQA(nn.Module):

    def __init__(self, dim=64, heads=4, bias_at="logits", how="mean"):
        super().__init__()
        self.heads, self.bias_at, self.how = heads, bias_at, how
        self.qkv = nn.Linear(dim, 3 * dim)
        self.relation_bias = nn.Parameter(torch.zeros(heads, 6))
        self.select = nn.Linear(dim, 1)
        self.operation = nn.Linear(dim, 3)

    def forward(self, h, row, col, cell, keep, values, numeric):
        """h (B, T, dim); row, col, cell (B, T) ints, cell 0 outside; keep (B, T) bool; values, numeric (B, C)"""
        B, T, D = h.shape
        q, k, v = self.qkv(h).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        scale = (D // self.heads) ** -0.5
        mixed, _ = RelationAttention.apply(q, k, v, self.relation_bias, relation_ids(row, col), keep, scale,
                                           self.bias_at)
        h = h + mixed.transpose(1, 2).reshape(B, T, D)
        logits = CellReduce.apply(self.select(h).squeeze(-1), cell, values.shape[1], self.how, -30.0)
        ops = torch.softmax(self.operation(h[:, 0]), -1)
        return AggregateExpectation.apply(torch.sigmoid(logits), values, ops, numeric, 1.0)
