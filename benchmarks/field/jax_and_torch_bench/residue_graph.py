import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

# atoms of the backbone, in the order of the coordinate tensors
N, CA, C = 0, 1, 2


# attention over incoming edges --------------------------------------------------------


@torch.library.custom_op("resgraph::edge_softmax", mutates_args=())
def edge_softmax(logits: Tensor, dst: Tensor, num_nodes: int, temperature: float = 1.0) -> Tensor:
    index = dst[:, None].expand_as(logits)
    z = logits / temperature
    top = z.new_full((num_nodes, z.shape[1]), -torch.inf).scatter_reduce(0, index, z, "amax")
    e = torch.exp(z - top[dst])
    return e / torch.zeros_like(top).index_add(0, dst, e)[dst]


@edge_softmax.register_fake
def _(logits, dst, num_nodes, temperature=1.0):
    return torch.empty_like(logits)


def _edge_softmax_setup(ctx, inputs, output):
    _, dst, num_nodes, temperature = inputs
    ctx.save_for_backward(output, dst)
    ctx.num_nodes, ctx.temperature = num_nodes, temperature


def _edge_softmax_backward(ctx, grad):
    p, dst = ctx.saved_tensors
    pg = p * grad
    per_node = pg.new_zeros(ctx.num_nodes, pg.shape[1]).index_add(0, dst, pg)
    return (pg - p * per_node[dst]) / ctx.temperature, None, None, None


edge_softmax.register_autograd(_edge_softmax_backward, setup_context=_edge_softmax_setup)


# message passing ----------------------------------------------------------------------


class Propagate(torch.autograd.Function):
    # x (nodes, channels), weight (edges, heads), edge_index (2, edges) = source, target
    # channels are split evenly over the heads; out[target] += weight * x[source]

    @staticmethod
    def forward(x, weight, edge_index):
        src, dst = edge_index
        heads = weight.shape[1]
        msg = x.view(x.shape[0], heads, -1)[src] * weight[..., None]
        return torch.zeros_like(x).index_add_(0, dst, msg.flatten(1))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight, edge_index = ctx.saved_tensors
        src, dst = edge_index
        heads = weight.shape[1]
        xh = x.view(x.shape[0], heads, -1)
        gh = grad.reshape(x.shape[0], heads, -1)
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            back = gh[src] * weight[..., None]
            grad_x = torch.zeros_like(x).index_add_(0, dst, back.flatten(1))
        if ctx.needs_input_grad[1]:
            grad_w = (xh[src] * gh[dst]).sum(-1)
        return grad_x, grad_w, None


# relative positions -------------------------------------------------------------------


class RelativePositionBias(torch.autograd.Function):
    # table (2 * reach + 1, heads) -> bias (heads, length, length); separations beyond
    # +-reach share the first / last row of the table

    @staticmethod
    def forward(ctx, table, length):
        reach = table.shape[0] // 2
        pos = torch.arange(length, device=table.device)
        sep = (pos[None, :] - pos[:, None]).clamp(-reach, reach) + reach
        ctx.reach, ctx.length = reach, length
        return table[sep].permute(2, 0, 1).contiguous()

    @staticmethod
    def backward(ctx, grad):
        reach, length = ctx.reach, ctx.length
        out = grad.new_zeros(2 * reach + 1, grad.shape[0])
        # one diagonal of the attention map per row, cheaper than a scatter of L * L entries
        for k in range(-min(reach, length - 1), min(reach, length - 1) + 1):
            out[k + reach] = torch.diagonal(grad, k, 1, 2).sum(-1)
        return out, None


# backbone geometry --------------------------------------------------------------------


def _dot(a, b):
    return (a * b).sum(-1, keepdim=True)


class Torsion(torch.autograd.Function):
    # sine and cosine of the dihedral angle of four points (..., 3); where mask (...) is
    # False the angle is taken as 0 and nothing flows back.  Blondel & Karplus 1996.

    @staticmethod
    def forward(ctx, p0, p1, p2, p3, mask=None):
        f, g, h = p0 - p1, p1 - p2, p3 - p2
        a = torch.cross(f, g, dim=-1)
        b = torch.cross(h, g, dim=-1)
        x = (a * b).sum(-1)
        y = (torch.cross(b, a, dim=-1) * g).sum(-1) / g.norm(dim=-1)
        angle = torch.atan2(y, x)
        if mask is not None:
            angle = torch.where(mask, angle, torch.zeros_like(angle))
        sin, cos = torch.sin(angle), torch.cos(angle)
        ctx.save_for_backward(f, g, h, a, b, sin, cos)
        ctx.mask = mask
        return sin, cos

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        f, g, h, a, b, sin, cos = ctx.saved_tensors
        d = (grad_sin * cos - grad_cos * sin)[..., None]
        length = g.norm(dim=-1, keepdim=True)
        a = a / _dot(a, a)
        b = b / _dot(b, b)
        d0 = -length * a
        d3 = length * b
        shift = _dot(f, g) / length * a - _dot(h, g) / length * b
        grads = [d * t for t in (d0, shift - d0, -shift - d3, d3)]
        if ctx.mask is not None:
            keep = ctx.mask[..., None]
            grads = [torch.where(keep, t, torch.zeros_like(t)) for t in grads]
        return (*grads, None)


# normalisation ------------------------------------------------------------------------


class MaskedNorm(torch.autograd.Function):
    # x (batch, length, channels), mask (batch, length) bool; statistics per protein and
    # channel over its own residues; padded positions come out as 0
    # (xhat and rstd are returned only to reach setup_context and carry no gradient)

    @staticmethod
    def forward(x, mask, weight, bias, eps):
        m = mask[..., None].to(x.dtype)
        count = m.sum(1, keepdim=True).clamp(min=1)
        mean = (x * m).sum(1, keepdim=True) / count
        centred = (x - mean) * m
        rstd = torch.rsqrt((centred * centred).sum(1, keepdim=True) / count + eps)
        xhat = centred * rstd
        out = xhat.clone() if weight is None else xhat * weight
        out = out if bias is None else out + bias * m
        return out, xhat, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask, weight, _, _ = inputs
        _, xhat, rstd = output
        ctx.mark_non_differentiable(xhat, rstd)
        ctx.save_for_backward(mask, weight, xhat, rstd)

    @staticmethod
    def backward(ctx, grad, _xhat, _rstd):
        mask, weight, xhat, rstd = ctx.saved_tensors
        m = mask[..., None].to(grad.dtype)
        count = m.sum(1, keepdim=True).clamp(min=1)
        grad = grad * m
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gh = grad if weight is None else grad * weight
            gx = gh - gh.sum(1, keepdim=True) / count
            gx = gx - xhat * (gh * xhat).sum(1, keepdim=True) / count
            gx = gx * rstd * m
        if ctx.needs_input_grad[2]:
            gw = (grad * xhat).sum((0, 1))
        if ctx.needs_input_grad[3]:
            gb = grad.sum((0, 1))
        return gx, None, gw, gb, None


# the network --------------------------------------------------------------------------


def knn_graph(ca: Tensor, k: int) -> Tensor:
    dist = torch.cdist(ca, ca).fill_diagonal_(float("inf"))
    nearest = dist.topk(k, largest=False).indices
    target = torch.arange(ca.shape[0]).repeat_interleave(k)
    return torch.stack([nearest.flatten(), target])


def backbone_features(coords: Tensor, mask: Tensor) -> Tensor:
    # coords (length, 3 atoms, 3) -> sin / cos of phi and psi, (length, 4)
    prev_c = F.pad(coords[:-1, C], (0, 0, 1, 0))
    next_n = F.pad(coords[1:, N], (0, 0, 0, 1))
    has_prev, has_next = mask.clone(), mask.clone()
    has_prev[0], has_next[-1] = False, False
    phi = Torsion.apply(prev_c, coords[:, N], coords[:, CA], coords[:, C], has_prev)
    psi = Torsion.apply(coords[:, N], coords[:, CA], coords[:, C], next_n, has_next)
    return torch.stack([*phi, *psi], -1)


class ResidueNorm(nn.Module):
    def __init__(self, dim, affine=True, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None
        self.bias = nn.Parameter(torch.zeros(dim)) if affine else None

    def forward(self, x, mask):
        return MaskedNorm.apply(x, mask, self.weight, self.bias, self.eps)[0]


class GraphBlock(nn.Module):
    def __init__(self, dim, heads=4, temperature=2.0):
        super().__init__()
        self.score = nn.Linear(2 * dim, heads)
        self.value = nn.Linear(dim, dim)
        self.norm = ResidueNorm(dim)
        self.temperature = temperature

    def forward(self, x, edge_index):
        src, dst = edge_index
        logits = self.score(torch.cat([x[src], x[dst]], -1))
        attn = edge_softmax(logits, dst, x.shape[0], self.temperature)
        x = x + Propagate.apply(self.value(x), attn, edge_index)
        return self.norm(x[None], torch.ones(1, x.shape[0], dtype=torch.bool))[0]


class SequenceAttention(nn.Module):
    def __init__(self, dim, heads=4, reach=32):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.table = nn.Parameter(0.02 * torch.randn(2 * reach + 1, heads))

    def forward(self, x):
        q, k, v = (t.view(x.shape[0], self.heads, -1).transpose(0, 1) for t in self.qkv(x).chunk(3, -1))
        bias = RelativePositionBias.apply(self.table, x.shape[0])
        attn = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        return x + (attn @ v).transpose(0, 1).flatten(1)


class Encoder(nn.Module):
    def __init__(self, dim=32, depth=2, neighbours=8):
        super().__init__()
        self.neighbours = neighbours
        self.embed = nn.Linear(4, dim)
        self.seq = nn.ModuleList(SequenceAttention(dim) for _ in range(depth))
        self.graph = nn.ModuleList(GraphBlock(dim) for _ in range(depth))

    def forward(self, coords, mask):
        x = self.embed(backbone_features(coords, mask))
        edges = knn_graph(coords[:, CA], self.neighbours)
        for s, g in zip(self.seq, self.graph):
            x = g(s(x), edges)
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    coords = torch.randn(40, 3, 3).cumsum(0).requires_grad_()
    net = Encoder()
    net(coords, torch.ones(40, dtype=torch.bool)).pow(2).sum().backward()
    print({n: round(p.grad.norm().item(), 4) for n, p in net.named_parameters()})
    print(torch.isfinite(coords.grad).all().item())
