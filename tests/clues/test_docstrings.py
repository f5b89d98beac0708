"""Prose as clues: what people write, and what it must not be taken for. Long because most of it is a list of what was met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.clues.docstrings import clues, clues_of_keys, read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.project.input_specs import parse

# Text, and the spec of each parameter it gives one (with its domain), in the order of the names.
SHAPES = [
    ("Reviews.\n\nscores [N] raw marks; reviewer, paper [N] ids.", {"scores": "f32[N]", "reviewer": "i32[N]", "paper": "i32[N]"}),
    ("times [H, R], exposure [Q], wind [H] (tail positive)", {"times": "f32[H R]", "exposure": "f32[Q]", "wind": "f32[H]"}),
    ("Water. temps [B, Z] in deg C; soil [Z] class ids.", {"temps": "f32[B Z]", "soil": "i32[Z]"}),
    ("g (Q,), delta (Q, R), alpha () or (Q,)", {"g": "f32[Q]", "delta": "f32[Q R]", "alpha": "f32[Q]"}),
    ("r: (n, m) distances, ell: scalar tensor -> (n, m)", {"r": "f32[n m]", "ell": "f32[]"}),
    ("times (bonds, dates), n_dates (bonds,)", {"times": "f32[bonds dates]", "n_dates": "i32[bonds] in 1..dates"}),
    ("x: (batch, points)\nn_points: (batch,) effective number of points", {"x": "f32[batch points]", "n_points": "f32[batch]"}),
    ("u (cells, x), n_x (cells,)", {"u": "f32[cells x]", "n_x": "f32[cells]"}),
    ("y (bins, sites), n_sites (sites,)", {"y": "f32[bins sites]", "n_sites": "f32[sites]"}),
    ("x (batch, dim) over its root mean square, times weight (dim,).", {"x": "f32[batch dim]", "weight": "f32[dim]"}),
    ("Args:\n    logits: float array [platters, dishes].\n    y: int array [platters, dishes] of 1 (there), 0 (not), -1 (open).\n    u: float array [0, 1].\n    v: float array (positive, finite).", {"logits": "f32[platters dishes]", "y": "i32[platters dishes] in -1..2", "u": "", "v": ""}),
    ("Args:\n    prior: one row a breed, shape [breeds, signs]; rows need not sum to one.\n    breed: integer tensor of shape [...]; several are alike.", {"prior": "f32[breeds signs]", "breed": ""}),
    ("x: (n, d), with a bias (d,) added and a scale (d,) multiplied.", {"x": "f32[n d]", "bias": "f32[d]", "scale": "f32[d]"}),
    ("a, b: (n, d); the others: (d,).", {"a": "f32[n d]", "b": "f32[n d]"}),
    ("Args:\n    x: (n, d)\n    t: float array (strictly, increasing).\n    u: float array [lo, hi]\n    p: int32, the order.", {"x": "f32[n d]", "t": "", "u": "", "p": ""}),
    ("bias: [R]\nscale: [R], positive", {"bias": "f32[R]", "scale": "f32[R]"}),
    ("Scale.\n\nx: (batch, dim), weight: (dim,)", {"x": "f32[batch dim]", "weight": "f32[dim]"}),
    ("Layer norm. x: [batch, dim], scale: [dim], bias: [dim].", {"x": "f32[batch dim]", "scale": "f32[dim]", "bias": "f32[dim]"}),
    ("Apply weight of shape (features,) to x of shape (batch, features).", {"x": "f32[batch features]", "weight": "f32[features]"}),
    ("Instance norm; `x` is (N, C, H, W).", {"x": "f32[N C H W]"}),
    ("x (ndarray, shape (n, k)): the data\nk (int): number", {"x": "f32[n k]", "k": "3"}),
    ("Args:\n    x: A tensor of shape (batch, dim).\n    y (jax.Array): labels of shape [batch]\n", {"x": "f32[batch dim]", "y": "i32[batch]"}),
    ("Parameters\n----------\nx : array, shape (N, C)\n    Scores.\ny : (N,) array of int\n    Labels.\n", {"x": "f32[N C]", "y": "i32[N]"}),
    (":param x: the logits, shape ``(n, 3)``\n:param y: boolean mask with shape (n,)\n", {"x": "f32[n 3]", "y": "bool[n]"}),
    ("Args:\n    x: queries,\n        with shape [heads, n, d]\n    y: int, how many\n", {"x": "f32[heads n d]", "y": "3"}),
    (":param x: the input of shape (n, d)\n:type x: Tensor\n:param g: the gain\n:type g: float", {"x": "f32[n d]", "g": "f32[]"}),
    ("w (items, dim), i (trips, legs) int, x (trips, legs) positive (e.g. counts)", {"w": "f32[items dim]", "i": "i32[trips legs]", "x": "f32[trips legs]"}),
    ("logits (G, G); src, dst int (N,), dst < 0 = withdrawn; w (N,)", {"logits": "f32[G G]", "src": "i32[N]", "dst": "i32[N]", "w": "f32[N]"}),
    ("Mean over the species, every clip alike. `x` is [clip, species]. `y` is an integer table of the same shape: 1 heard, 0 not, and U (-1) for no statement.", {"x": "f32[clip species]", "y": "i32[clip species]"}),
    ("Takes x: (n, d). `y` is an array of the same shape as x, summed where the boolean mask m is set.", {"x": "f32[n d]", "y": "f32[n d]"}),
    ("Reads x (rows, cols, planes) at the places i, j, k of (rows, cols, planes).", {"x": "f32[rows cols planes]", "i": "", "j": ""}),
    ("The function takes x, y, z of (batch, heads, depth) and a w of (heads, depth).", {"x": "f32[batch heads depth]", "y": "f32[batch heads depth]", "z": "f32[batch heads depth]", "w": "f32[heads depth]"}),
    ("Sums x, y and z of shape (n, d).", {"x": "f32[n d]", "y": "f32[n d]", "z": "f32[n d]"}),
    ("x: (n, d) array\ny: array of the same shape as x", {"x": "f32[n d]", "y": "f32[n d]"}),
    ("Args:\n    x: Levels, ``[fields, levels]``.\n    y: The same among others.\n    w: ``[fields]``.  More are ignored.", {"x": "f32[fields levels]", "y": "f32[fields levels]", "w": "f32[fields]"}),
    ("Args:\n    x: Levels, ``[fields, levels]``.\n    w: (n,) of each.", {"x": "", "w": "f32[n]"}),
    ("x (P,), y (C,): integer object numbers. w (P, C): costs.", {"x": "i32[P]", "y": "i32[C]", "w": "f32[P C]"}),
    ("x, y: [batch]; w: [pans]; z: 0-d tensors.", {"x": "f32[batch]", "y": "f32[batch]", "w": "f32[pans]", "z": "f32[]"}),
    ("x: [s]; y: (n,); w: [pans]; z: [litres].", {"x": "", "y": "f32[n]", "w": "", "z": ""}),
    ("(B, C) scores, (B, 1) or (1, 1) thresholds, (C,) costs -> (B,).", {"scores": "f32[B C]", "threshold": "f32[B 1]", "class_cost": "f32[C]"}),
    ("(B, T) log probs and (B,) long lengths.", {"log_probs": "f32[B T]", "lengths": "i32[B]"}),
    ("Takes ``x`` and ``y`` contact points, both\n(patients, n, 2), and ``g`` (patients, n), 1 for all.", {"x": "f32[patients n 2]", "y": "f32[patients n 2]", "g": "f32[patients n]", "n": ""}),
    ("x and y, both (n, d), and w (d,)", {"x": "f32[n d]", "y": "f32[n d]", "w": "f32[d]"}),
    ("x and y integer indices, both (E,).", {"x": "i32[E]", "y": "i32[E]"}),
    ("x and y are bool arrays, both (B, T).", {"x": "bool[B T]", "y": "bool[B T]"}),
    ("x and y, both (E,), integers below n.", {"x": "i32[E]", "y": "i32[E]"}),
    ("Adds a and b to x, all (N, C).", {"a": "", "x": "f32[N C]"}),
    ("x and y lie both (0, 1). w (n, d)", {"x": "", "y": "", "w": "f32[n d]"}),
    ("x and y, both (Smith, Wu); w (n, d)", {"x": "", "y": "", "w": "f32[n d]"}),
    ("(B, C) scores, (C,) prices.", {"scores": "f32[B C]", "costs": "", "threshold": ""}),
    ("Args:\n    x: (n, d)\n    y: The same for train and test.", {"x": "f32[n d]", "y": ""}),
    ("Args:\n    x: (n, d)\n    g: float, slope of x.\n    y: The same for the other.", {"x": "f32[n d]", "g": "f32[]", "y": ""}),
    ("(B, T) values, (B, T) next values, (B,) rewards.", {"values": "f32[B T]", "next_values": "f32[B T]", "rewards": "f32[B]"}),
    ("(B, C) scores, (1, 1) or (B, 1) thresholds -> (B,)", {"scores": "f32[B C]", "threshold": "f32[B 1]"}),
    ("The mean of x (n, d).  Result: (n,) means, (d,) weights.", {"x": "f32[n d]", "weights": ""}),
    ("x: the features\n  (N, D) points, (D,) scales\ny: (N,)", {"x": "f32[N D]", "y": "f32[N]"}),
    ("x: Speed [meters, seconds].\ny: Time [seconds].\nw: (n,)", {"x": "", "y": "", "w": "f32[n]"}),
    ("x: values in [lows, highs].\ny: rates in [lows, highs].\nw: (n,)", {"x": "", "y": "", "w": "f32[n]"}),
    ("Log determinant of I + a a^T for a matrix a of shape (n, k).", {"a": "f32[n k]"}),
    ("Trace of a square matrix a.", {"a": "f32[n_a n_a]"}),
    ("Inverse of an n x n matrix a.", {"a": "f32[n n]"}),
    ("Multiply x by a scalar c.", {"c": "f32[]"}),
    ("0.5 k sum x^2; x (n,), k scalar", {"x": "f32[n]", "k": "f32[]"}),
    ("Causal mean of x[B, T, D] over time.", {"x": "f32[B T D]"}),
    ("x: [n, chosen] float; ids: [chosen] int", {"x": "f32[n chosen]", "ids": "i32[chosen]"}),
    ("x: int [v]\ny: bool [v], no votes", {"x": "i32[v]", "y": "bool[v]"}),
    ("values (nnz,) and x (nodes, features)", {"values": "f32[nnz]", "x": "f32[nodes features]"}),
    ("loss between x [B x D] and y [B x D]", {"x": "f32[B D]", "y": "f32[B D]"}),
    ("Shape:\n    - Input: (N, *, H)\n    - Weight: (H, K)\n    - Output: (N, *, K)", {"x": "f32[N lead H]", "weight": "f32[H K]"}),
    ("x: [..., n] array", {"x": "f32[lead n]"}),
    ("Attention. q and k are both (n, d), v is (n, e).", {"q": "f32[n d]", "k": "f32[n d]", "v": "f32[n e]"}),
    ("q, k, v: (batch, heads, seq, dim)", dict.fromkeys("qkv", "f32[batch heads seq dim]")),
    ("distance (to, from); area (to,); shape of it", {"distance": "f32[dto dfrom]", "area": "f32[dto]"}),
    ("x in R^{n x d}, y in Rn", {"x": "f32[n d]", "y": "f32[n]"}),
    ("x: matrix in R N×D, y: in RN", {"x": "f32[N D]", "y": "f32[N]"}),
    ("x: matrix in RNxD\ny: in R n x d", {"x": "f32[N D]", "y": "f32[n d]"}),
    ("Weight norm: v (out, in), g (out,)", {"v": "f32[dout din]", "g": "f32[dout]"}),
    ("Convolve a signal x (n,) with a shorter kernel (k,).", {"x": "f32[n]", "k": "", "kernel": "f32[k]"}),
    ("x: (B, T, D) padded\nlengths: (B,) int32", {"x": "f32[B T D]", "lengths": "i32[B]"}),
    ("x is a tensor of shape (batch_size, seq_len, hidden_size).", {"x": "f32[batch_size seq_len hidden_size]"}),
    ("x: H x W x C array", {"x": "f32[H W C]"}),
    ("x: (N, C, H, W) map.\ng: (N, OH, OW, 2), x and y in [-1, 1].", {"x": "f32[N C H W]", "g": "f32[N OH OW 2]"}),
    ("x: matrices, [3, 3] or [B, 3, 3]\ny: points in the first image, [B, N, 2]\ng: points in the second, [B, N, 2]", {"x": "f32[B 3 3]", "y": "f32[B N 2]", "g": "f32[B N 2]"}),
    ("x: queries ``[batch, heads, dim]``.\ng: share of each head per sequence ``[batch]``, above 0.", {"x": "f32[batch heads dim]", "g": "f32[batch]"}),
    ("x: any shape; y: integers of the same shape, 1 for hits, 0 for misses,\n-1 for neither.", {"x": "f32[x_0 x_1]", "y": "i32[x_0 x_1] in -1..2"}),
    ("x: (n, k)\ny: integer codes (n,), one of {-1, 0, 1}", {"x": "f32[n k]", "y": "i32[n] in -1..2"}),
    ("x: (n, classes)\ny: Optional sequence of `classes` floats.", {"x": "f32[n classes]", "y": "f32[classes]"}),
    ("x: (n, ih, iw)\ng: (n, oh, ow), resampled", {"x": "f32[n ih iw]", "g": "f32[n oh ow]"}),
    (r"x :math:`\in \mathbb{R}^{n \times k}`", {"x": "f32[n k]"}),
    ("Shape:\n    - x: :math:`(N, H_{in})`", {"x": "f32[N H_in]"}),
    ("Args:\n    x: logits for each class, shape (N, C)", {"x": "f32[N C]"}),
    ("x: patches (n, 2*d), y: (n, d/2), z: (n - 1, 768)", {"x": "f32[n 2*d]", "y": "f32[n d//2]", "z": "f32[n-1 n768]"}),
    ("logits: [N, C]; targets: LongTensor [N] with values in 0..C-1", {"logits": "f32[N C]", "targets": "i32[N] in 0..C"}),
    ("Args:\n    logits: (batch, classes)\n    labels: (batch,) integer class indices in [0, classes)", {"logits": "f32[batch classes]", "labels": "i32[batch] in 0..classes"}),
    ("ids: (n,) segment ids in 0..m", {"ids": "i32[n]"}),
    ("Rotate v by the unit quaternion q = (w, x, y, z).", {"q": "f32[4]"}),
    ("Rotates points p = (x, y, z) by a quaternion q.", {"p": "f32[lead 3]", "q": "f32[4]"}),
    ("q: unit quaternions (w, x, y, z)", {"q": "f32[lead 4]"}),
    ("x: (batch..., length, features)", {"x": "f32[lead length features]"}),
    ("x: Shape (C), (N, C) or (N, C, ...)", {"x": "f32[N C]"}),
    ("target: (N) where each value is :math:`0 \\leq \\text{target}[i] \\leq C-1`\nx: (N, C)", {"target": "i32[N] in 0..C", "x": "f32[N C]"}),
    ("nodes is [N, F]; senders and receivers are the int edge lists [E].", {"nodes": "f32[N F]", "senders": "i32[E]", "receivers": "i32[E]"}),
    ("temp: (ncol, nz) temperature.\nk: (ncol, nz - 1) diffusivity", {"temp": "f32[ncol nz]", "k": "f32[ncol nz-1]"}),
    ("x: (b, t, d)\nlens, others: LongTensor, shape (b,)\n    Valid sizes, ``1 <= lens <= others``.", {"lens": "i32[b]", "others": "i32[b]"}),
    ("2-D convolution. x is NCHW, weight is OIHW; stride and padding are ints.", {"x": "f32[N C H W]", "weight": "f32[O C kh kw]", "stride": "2", "padding": "3"}),
    ("mask: boolean mask broadcastable to (batch, heads, n)", {"mask": "bool[batch heads n]"}),
    ("Sum of `x` (n, d) over `segment_ids` (n,), integers in [0, m).", {"x": "f32[n d]", "segment_ids": "i32[n]"}),
    ("Valid correlation of a signal x of length n with a kernel.", {"x": "f32[n]"}),
    ("x: N x D matrix of inputs; mean and var: vectors of length D.", {"x": "f32[N D]", "mean": "f32[D]", "var": "f32[D]"}),
    ("Rotates the vectors v (..., 3).", {"v": "f32[lead 3]"}),
    ("B: (B, L, N)\nx: (B, L, D)", {"B": "f32[B L N]", "x": "f32[B L D]"}),
    ("tokens is an int array [B, T] of ids, table is [vocab, dim].", {"tokens": "i32[B T]", "table": "f32[vocab dim]"}),
    ("x: [seq, dim] at integer `positions` [seq]", {"x": "f32[seq dim]", "positions": "i32[seq]"}),
    ("weight: per-class weights, shape [C], all positive", {"weight": "f32[C]"}),
    ("`grades` are integers (batch,), -1 where nobody graded.", {"grades": "i32[batch]"}),
    ("`grades` are booleans of shape (batch, covers).", {"grades": "bool[batch covers]"}),
    ("`u` holds averages; dt and dx are floats, n (an int) is their number.", {"u": "", "dt": "f32[]", "dx": "f32[]", "n": "3"}),
    ("amp, noise : () log deviations\nscale : (d,) or ()", {"amp": "f32[]", "noise": "f32[]", "scale": "f32[d]"}),
    ("t: time, scalar in [0, 1]", {"t": "f32[]"}),
    ("x (Tensor): features with shape :math:`(|V|, F)`", {"x": "f32[V F]"}),
    ("logits (n, c), labels (n,)", {"logits": "f32[n c]", "labels": "i32[n] in 0..c"}),
    ("logits (n, c), labels (n, c)", {"logits": "f32[n c]", "labels": "f32[n c]"}),
    ("x (n, c), targets (n,)", {"x": "f32[n c]", "targets": "f32[n]"}),
    ("mask: (b, n)\nidx: (b,)\nother_mask: additive floats (b, n)", {"mask": "bool[b n]", "idx": "i32[b]", "other_mask": "f32[b n]"}),
    ("axis: int\nreduction: 'mean' | 'sum' | 'none'", {"axis": "-1", "reduction": "'mean'"}),
    ("image: 'h w 3' floats.\npoints: \"n 2\" pixels", {"image": "f32[h w 3]", "points": "f32[n 2]"}),
    ('scores "b hq n", table "hq d"; lens "b" ints', {"scores": "f32[b hq n]", "table": "f32[hq d]", "lens": ""}),
    ('book: "vocab dim", rows: "bags places" (int)', {"book": "f32[vocab dim]", "rows": "i32[bags places]"}),
    ("counts: (rows,) int, how many real words a row has", {"counts": "i32[rows]"}),
    ("y: (n,) integers 0/1, as floats", {"y": "f32[n]"}),
    ("x: (r, 3) integer indices as a float tensor", {"x": "f32[r 3]"}),
    ("ids: (n,) int64 tensor of indices, accumulated in float32", {"ids": "i32[n]"}),
    ("labels: integer class ids of shape (n,); probabilities are computed as floats", {"labels": "i32[n]"}),
    ("x: NHWC images; taps: (kh, kw, channels, multiplier).", {"x": "f32[N H W C]", "taps": "f32[kh kw channels multiplier]"}),
    ("x: (n, d)\nw: weights of x's shape", {"x": "f32[n d]", "w": "f32[n d]"}),
    ("x: 'same size' or 'full size', y: (n, d)", {"x": "", "y": "f32[n d]"}),
    ("q: [B, Tq, D]; k: keys [B, Tk, D], v: [B, Tk, Dv]", {"q": "f32[B Tq D]", "k": "f32[B Tk D]", "v": "f32[B Tk Dv]"}),
    ("spots: (wells, plates)\nbatch: plate effects, (plates,)", {"spots": "f32[wells plates]", "batch": "f32[plates]"}),
    ("cell : (3,) float\n    Edges.\ngrid : (2, 2)", {"cell": "f32[3]", "grid": "f32[2 2]"}),
    ("t: (A, 3) int; p: (n, 3)", {"t": "i32[A 3]", "p": "f32[n 3]"}),
    ("z is (nodes, features), the other two (edges,).", {"z": "f32[nodes features]", "w": "f32[edges]", "r": "f32[edges]"}),
    ("z is (nodes, features), the other three (edges,).", {"z": "f32[nodes features]", "w": "", "r": ""}),
    ("pred: (batch, time)\ntarget: same shape\nweight: any shape", {"pred": "f32[batch time]", "target": "f32[batch time]", "weight": ""}),
    ("x: any shape, e.g. (n, k)\ny: same shape, the truth", {"x": "f32[n k]", "y": "f32[n k]"}),
    ("v: (fan_in, fan_out)\ng: same shape as v with the last axis of size one", {"v": "f32[fan_in fan_out]", "g": ""}),
    ("Skew matrices of vectors: (..., 3) -> (..., 3, 3).", {"w": "f32[lead 3]"}),
    ("Angle between two (batch, dim) embeddings, shape (batch,).", {"a": "f32[batch dim]", "b": "f32[batch dim]"}),
    ("Blur in time, for (batch, time, channels) sequences.", {"x": "f32[batch time channels]", "width": ""}),
    ("(n, d), (m, d) -> (n, m)", {"x": "f32[n d]", "y": "f32[m d]"}),
    ("the basis; (...,) and (k,) -> (..., k)", {"x": "", "y": "f32[k]"}),
]  # fmt: skip

TREES = [
    ('params {"mean", "sum"}, how (n,) losses x are put together', "'mean'"),
    ("params: dict with (k,) 'mu', 'sigma' (> 0), 'pi' a single number; x [k]", ""),
    ("params: dict of [eV] 'gap', 'width' (> 0); x [n]", ""),
    ('A light curve: params {"ps", "alpha"}, each (C,); light (N, 1) or (N, C).', "{ps: f32[C], alpha: f32[C]}"),
    ('params: dict of (C,) "sat", "res", "depress" (> 0), "expo"; x [Z]', "{sat: f32[C], res: f32[C], depress: f32[C], expo: f32[C]}"),
    ("Args:\n    params: dict with w1 (din, dh), b1 (dh,)\n    x: (batch, din)", "{w1: f32[din dh], b1: f32[dh]}"),
    ("params: dictionary of weights\n  'w': (n, k)\n  'b': (k,)\n", "{w: f32[n k], b: f32[k]}"),
    ("params: tuple of arrays of shapes (n, k) and (k,)", "(f32[n k], f32[k])"),
    ("params: a pair (w, b) with shapes (n, k), (k,)", "(f32[n k], f32[k])"),
    ("Two layers; `params` is a dict {\"w\": (din, dout), \"b\": (dout,)} and x is (batch, din).", "{w: f32[din dout], b: f32[dout]}"),
    ("params: dict of Wz, Wr (h + i, h) and bz (h,)", "{Wz: f32[h+i h], Wr: f32[h+i h], bz: f32[h]}"),
    ("params: tuple (W, b), W of shape (d, k), b of shape (k,)", "(f32[d k], f32[k])"),
    ("params: tuple (h, c), each of shape (batch, hidden)", "(f32[batch hidden], f32[batch hidden])"),
    ("params: a pair of (n, d) arrays", "(f32[n d], f32[n d])"),
    ("params: a list of (W, b) pairs, W: (n_in, n_out), b: (n_out,)", ""),
    ("params: dict of weights, see (Kingma, 2014)", ""),
    ("params: dict with w of shape (n, k)", "{w: f32[n k]}"),
    ("params: dict of (m,) arrays 'mu', 'log_sd'; x: (n,) -> (n,)", "{mu: f32[m], log_sd: f32[m]}"),
    ('params: mapping of [d] vectors "lo" and "hi" and a [d, k] matrix "mix"', "{lo: f32[d], hi: f32[d], mix: f32[d k]}"),
    ("params: dict of (k,) arrays rate, shape and offset.", "{rate: f32[k], shape: f32[k], offset: f32[k]}"),
    ('params: {"w": (in, out), "b": (out,)}, b may be left out', "{w: f32[din dout], b: f32[dout]}"),
    ("params: dict with w [din, dout], a [din, r], b [r, dout]", "{w: f32[din dout], a: f32[din r], b: f32[r dout]}"),
    ("params = {'ecc': (), 'anomaly': (n,)}", "{ecc: f32[], anomaly: f32[n]}"),
    ("One step. params is (h, c), both (batch, hidden).", "(f32[batch hidden], f32[batch hidden])"),
    ("params: (pos, vel), arrays of shape (n, 3)", "(f32[n 3], f32[n 3])"),
    ("params: (h, c) with h (b, d) and c (b, d)", "(f32[b d], f32[b d])"),
]  # fmt: skip

DOMAINS = [
    ("The sigmoid of x, in [0, 1].", {}),
    ("The mean of x and y, in [0, 1].", {}),
    ("abs(x) times signs s, each -1 or 1; both (n,).", {"s": "in signs"}),
    ("x: (n,)\ns: (n,), 1 or -1 as the spin points", {"s": "in signs"}),
    ("x: (n,)\ns: the axis, -1 or 1", {}),
    ("Loss of x [B, A] against the share of workers who marked it, in [0, 1].", {"share": "in [0, 1]"}),
    ("x (n, c), y (n, c) is 1 where nothing was sent; such hours get no weight.", {"y": "in binary"}),
    ("age (years, >= 0, zero gives zero), fitness lambda, longevity sigma > 0, base m: any", {"age": ">= 0", "longevity": "> 0"}),
    ("It vanishes for a small width w > 0 of x.", {}),
    ("Smooth penalty of the residual (convex, positive); residual.", {}),
    ("It loads, force v > 0, as it goes; force, v.", {}),
    ("w (items, dim), x (trips, legs) positive (e.g. counts). The y (trips, legs).", {"x": "> 0"}),
    ("x (Tensor): input\ngamma (float): focusing parameter, > 0", {"gamma": "> 0"}),
    ("Log for x > 0.", {"x": "> 0"}),
    ("This function is undefined for x < 0.", {"x": ">= 0"}),
    ("y: (t, 1), broadcast with x (t, p); x < 0 means that the sun is behind the plane.", {}),
    ("Invalid for x <= 0.", {"x": "> 0"}),
    ("atanh, defined for |x| < 1.", {"x": "in (-1, 1)"}),
    ("x must be strictly positive.", {"x": "> 0"}),
    ("x: array with values in [0, 1]", {"x": "in [0, 1]"}),
    ("Square root of a non-negative x.", {"x": ">= 0"}),
    ("x: non-negative survey weights that broadcast to `y`", {"x": ">= 0"}),
    ("x: non-negative look weights, `[looks]`", {"x": ">= 0"}),
    ("x: between 0.0 and 1.0", {"x": "in [0.0, 1.0]"}),
    ("x: in the range 0.5 to 2.", {"x": "in [0.5, 2]"}),
    ("x: in the range of 0 to 1 (inclusive)", {"x": "in [0, 1]"}),
    ("x: between 0 and 90deg", {"x": "in [0, 90]"}),
    ("x: share of worms, runs from 0 to about 0.6", {"x": "in [0, 0.6]"}),
    ("``x`` ranges from -1 to 1 along the bench.", {"x": "in [-1, 1]"}),
    ("x: axis over which the sum runs from 0 to 10", {}),
    ("x: float, usually ranging from 0.5 to 2", {}),
    ("Computes log(x). x should be in (0, 1].", {"x": "in (0, 1]"}),
    ("x: array in [0, inf)", {"x": ">= 0"}),
    ("The step of `y`; `x` is a\nfloat vector of pitch classes in [0, 12).", {"x": "in [0, 12)"}),
    ("eps: small positive number", {"eps": "> 0"}),
    ("Parameters\n----------\nx : tf.Tensor, shape (..., k)\n    Positive abundances; they need not sum to one.\n", {"x": "> 0"}),
    ("Velocity in m/s; SI units, all arguments positive tensors that broadcast.", dict.fromkeys(("x", "y"), "> 0")),
    ("gaussian with sigma > 0 of x", {"sigma": "> 0"}),
    ("x: requires 0 < x < 1", {"x": "in (0, 1)"}),
    ("y >= 0 and ratio 0 <= x <= 1 broadcast. Balanced flow (x = 1) is handled by its limit.", {"x": "in [0, 1]", "y": ">= 0"}),
    ("x**2 for 0 <= x <= 1, x for x > 1", {}),
    ("Splits by y * x**gamma (both > 0); z is free.", {"x": "> 0", "y": "> 0"}),
    ("From z. Of a, b and x (all non-negative).", {"x": ">= 0", "a": ">= 0", "b": ">= 0"}),
    ("Drag of the velocity x over the masses y (all > 0).", {"y": "> 0"}),
    ("x minus y never (both > 0) at once.", {}),
    ("all > 0; capped at the ends", {"x": "> 0", "y": "> 0"}),
    ("Ratio of x and y. All > 0.", {"x": "> 0", "y": "> 0"}),
    ("Drag of the velocity x over masses y, lengths z\n    (all > 0).", {"z": "> 0"}),
    ("x: (n,) signed signal\ny: (n,) decay rates,\n            all > 0", {}),
    ("A function of critical ``x``, defect ``y`` and clustering ``z`` (all positive, broadcast).", {"x": "> 0", "y": "> 0", "z": "> 0"}),
    ("Weighted loss of x, with y (all positive, one for each).", {"y": "> 0"}),
    ("Scales z. y * x (both > 0)", {"x": "> 0", "y": "> 0"}),
    ("Torque over z.\n\ny, x (all > 0)", {"x": "> 0", "y": "> 0"}),
    ("Entropy of p, a distribution over classes.", {"p": "in simplex"}),
    ("p: (n, k) probabilities that sum to one", {"p": "in simplex"}),
    ("p: probabilities in each cell (n,)", {"p": "in [0, 1]"}),
    ("f: yearly fraction of coins lost, scalar", {"f": "in [0, 1]"}),
    ("f: (n,)\n    shares of each party", {"f": "in [0, 1]"}),
    ("f: share of the budget in percent", {}),
    ("f: share of income. Given in percent.", {}),
    ("f: share of demand, may exceed 1", {}),
    ("f: fraction of GDP, above one for indebted countries", {}),
    ("f: proportions of the body in cm", {}),
    ("f: shares of stock held", {}),
    ("f: log fraction of survivors", {}),
    ("targets: binary labels of shape (n,)", {"targets": "in binary"}),
    ("y: labels in {-1, +1}, shape (n,)", {"y": "in signs"}),
    ("a: symmetric positive definite matrix (n, n)", {"a": "in spd"}),
    ("Cholesky of a batch of symmetric positive definite matrices a.", {"a": "in spd"}),
    ("Solve with a lower triangular matrix l (n, n) and b (n,)", {"l": "in lower"}),
    ("x: (n, 3) points, r: (3, 3) rotation matrix", {"r": "in orthogonal"}),
    ("Rotate by the unit quaternion q.", {"q": "in unit"}),
    ("target: Tensor of the same shape as x with values between 0 and 1", {"target": "in [0, 1]"}),
    ("shade: shape (N,), between 0 and 1 (exclusive).", {"shade": "in (0, 1)"}),
    ("shade: between 0 and 1, exclusive", {"shade": "in (0, 1)"}),
    ("facings : Tensor, (shelves,)\n    m, real, strictly between zero and the shelf's number of products.", {"facings": "in [0.01, 0.99]"}),
    ("weights : (Z,) or (B, Z) positive weights, in any unit", {"weights": "> 0"}),
    ("A Hill curve of steepness ``steep`` (1 or more), which is one half at 4.", {"steep": ">= 1"}),
    ("steep (at least 1) and rate (zero or less) are learnt.", {"steep": ">= 1", "rate": "<= 0"}),
    ("steep: float, zero or greater", {"steep": ">= 0"}),
    ("steep: a share, where 1 or more are lost", {}),
    ("Rises with x above 1, and falls below.", {}),
    ("weight: [vocab] or None: fixed class weights, not trained.", {"weight": ">= 0"}),
    ("w (Tensor): sample weights, shape (n,)", {"w": ">= 0"}),
    ("w: scores that class weights are made of", {}),
    ("w: class weights (raw logits)", {}),
    ("w: per-class weights of shape (n,), not trained", {"w": ">= 0"}),
    ("w: importance weights, in log space", {}),
    ("w: [classes, dim] class weights of the classifier head", {}),
    ("u: strictly between 0 and the Courant number", {}),
    ("shade: strictly between 0 and 1", {"shade": "in (0, 1)"}),
    ("shade: between 0 and 1 (both ends excluded)", {"shade": "in (0, 1)"}),
    ("shade: between 0 and 1 (inclusive)", {"shade": "in [0, 1]"}),
    ("shade: between 0 and 1, exclusive of the padding, which is 0", {"shade": "in [0, 1]"}),
    ("shade: between 0 and 1, endpoints excluded", {"shade": "in (0, 1)"}),
    ("log_p: log of probabilities\ntheta: angle in [0, 2*pi]", {"theta": "in [0, 6.283185]"}),
    ("(lon, lat) in radians -> (x, y). |lat| up to 90 degrees; lon wraps.", {"lat": "in [-1.570796, 1.570796]"}),
    ("lat: latitude in degrees. |lat| up to 89 degrees", {"lat": "in [-89, 89]"}),
    ("Energy of distances r > 0, p >= 1.", {"r": "> 0", "p": ">= 1"}),
    ("Solves a x = b for symmetric positive-definite a of shape (n, n).", {"a": "in spd"}),
    ("t: knots in increasing order, shape (k,)", {"t": "in increasing"}),
    ("t: (k,) minutes that never run backwards", {"t": "in sorted"}),
    ("t: (k,) temperatures that never fall below zero", {}),
    ("t: (k,) m, rising, t[0] is the ground", {"t": "in increasing"}),
    ("t: (k,) times of each rising edge", {}),
    ("t: (k,) the level, m (rising, or falling)", {}),
    ("a: positive rates, (cells, genes)", {"a": "> 0"}),
    ("a: prior covariance, (n, n)\nc: cross-covariance, (n, n)", {"a": "in spd"}),
    ("p: points of the open simplex, shape (..., k)", {"p": "in simplex"}),
    ("x (B, T, D), w (B, T) positive and not normalised, n (B,) int >= 1.", {"w": "> 0"}),
    ("logits (B, H, T, S); cap (H,) positive.", {"cap": "> 0"}),
    ("probs [B, H, W, C] in (0, 1); mask [B, H, W] int class map.", {"probs": "in (0, 1)"}),
    ("A: (n, n), B: (n, m); Q: (n, n) and R: (m, m) symmetric positive definite.", {"Q": "in spd", "R": "in spd"}),
    ("u, dt : Float[B, T, C]      (dt > 0)\nA : Float[C, N]   (negative)", {"dt": "> 0", "A": "< 0"}),
    ("Rotate vectors v [..., 3] by quaternions q [..., 4] (w, x, y, z), any length > 0.", {"q": "in nonzero"}),
    ("v: (n, 3) non-zero vectors", {"v": "in nonzero"}),
]  # fmt: skip

NOTHING = [
    "The sum over x runs from 0 to 10.",
    "The loss in x ranges from 0 to 1.",
    "log x ranges from -3 to 3",
    "|x| ranges from 0 to 1.",
    "The response rises while x goes from 0 to 5.",
    "x: exponent, in the range 1 to 3, the kernel is smooth there.",
    "x: for small values, in the range 0 to 1, a series is used",
    "x: ranges from 0 to 1, but may be larger",
    "x: wavelengths. In the range 0.4 to 0.7 the response is quadratic, and linear outside of it.",
    "x: prices, ranging from 1 to 10,000.",
    "x: prices, ranges from 1 to 10,000.",
    "x: between 1 and 10,000",
    "x: runs from 1 to 10 000",
    "x: ranges from 0 to 1/3",
    "x: ranges from 0 to 2n",
    "x: ranges from 0 to 5k",
    "x: goes from 0 to 3 * n",
    "x: goes from 0 to 1 - eps",
    "x: ranges from 1 to 10-fold",
    "x: the temperature that goes from 1 to 5",
    "x: the loss of which ranges from 0 to 1",
    "x: inputs whose sigmoid, running from 0 to 1, is summed",
    "x: the answer is in the range 0 to 1",
    "x: logits. Its sigmoid is in the range 0 to 1",
    "The gain goes with x, running from 1 to 3",
    "The function of x ranges from 0 to 1",
    "x: shift, in a range of 3 to 4 pixels",
    "x: in the range 5 to 25 and beyond",
    "x: Typically, in the range 0 to 1",
    "x: typical values are in the range 0 to 1",
    "x: gain that varies from 3 to 7 with the season",
    "images x in RGB order, as y in R the package has them",
    "from x (to be moved) to y (from above)",
    "x: (from, to) of the window",
    "energy of a bath, grid [B, D], at the temperature x [K] of the bath",
    "magnetic flux x [T] integer multiples of it",
    "Force x [N] and torque y [N] of the arm.",
    "x: [N]\ny: [N], along the rope",
    "relu: x for x > 0, 0 otherwise",
    "elu: x if x > 0 else alpha * (exp(x) - 1)",
    "f(x, y) is called",
    "Returns:\n    x: (n, d) result",
    "x and y are added (slowly), shape does not matter.",
    "Positive part of x.",
    "True if x is positive. If x is negative, zero.",
    "x (m): the position, y [s]: the time",
    "the film x (W/(m2 K)) and the wall y, in J/(kg K)",
    "x is [mean, spread], summed over y",
    "x is [left, right]; each left edge is below y",
    "Rolls every row of x by an integer y.",
    "x: one value per pixel",
    "x: one weight per layer, each a matrix",
    "gamma: penalty on the vector norm",
    "the point (x, y) in the plane",
    "x[i, j] is read, and x[0]",
    "x: a number or an array",
    "sum x over (batch, dim)",
    "x: positive or negative values",
    "the output has shape (n, d), and so has the gradient of x",
    "x : float or array_like",
    "x (see Smith et al. (2014), p. 3)",
    "x: the positive class",
    "x: row i is the positive of row i of another",
    "x: positive samples, paired",
    "log probabilities x",
    "x in (a, b)",
    "x: tensor of shape (batch,) + spatial + (channels,)",
    "the power spectral density (psd) of x",
    "x: given the Cholesky factorization of another matrix",
    "x: If True, returns the indices, too",
    "x is the spectral density on [0, 4]",
    "x: array of shape (...)",
    "one for x > 0",
    "multiplying the matrix by x gives the softly sorted x.",
    "with mean x, S is the covariance matrix",
    "x is expected to contain the logits for each class (which do not need to sum to 1)",
    "x: the diagonal, a positive value refers to an upper one",
    "keeps x > 0",
    "the shape of x",
    "x: the mean (Wu, 2018)",
    "Maps (x, y) -> (y, x).",
    "Applied for (x, y) pairs",
    "x: NOTE that it is real",
    "x: one of (red, green, blue, alpha)",
    "x: any shape; y: of the same shape",
]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ('x: {"above": k1, "below": k2}, scalars greater than one', "{above: f32[], below: f32[]}"),
        ('x: {"a": scalar, "b": (n,)}', "{a: f32[], b: f32[n]}"),
    ],
)
def test_dicts_that_are_written_out(text: str, spec: str) -> None:
    whole = read(text, ["x"])["x"]
    assert (whole.spec, whole.kind, whole.values) == (spec, Kind.TREE, ())


def test_an_example_of_a_string_is_one_to_try() -> None:
    text = 'word : str\n    One letter of ``IXYZ`` per qubit, e.g. ``"XY"``.\nx: (n, d)'
    found = read(text, ["word", "x"])["word"]
    assert (found.spec, found.values, found.kind) == ("'XY'", ("XY",), Kind.WORD)
    assert not read("word : str\n    A name, as 'of' others.", ["word"])["word"].values


def test_keys_of_a_dict_are_no_words_to_choose_from() -> None:
    assert not read('x: {"above": k1, "below": k2}', ["x"])


def read(text: str, names: list[str]) -> dict[str, Clue]:
    return read_text(Text("the docstring", text, near=True), names)


@pytest.mark.parametrize(("text", "specs"), SHAPES)
def test_texts_that_say_a_shape(text: str, specs: dict[str, str]) -> None:
    found = read(text, list(specs))
    assert {name: found[name].spec if name in found else "" for name in specs} == specs
    parse(", ".join(f"{name}={spec}" for name, spec in specs.items() if spec))


def test_a_shape_behind_another_name_is_not_an_alternative() -> None:
    assert read("x: (B, C) with m or (B, T, C)", ["x", "m"])["x"].otherwise == ""


def test_another_shape_that_is_taken_as_well() -> None:
    found = read("attn [B, H, T]; gate [H] shared, or [B, H] per example.", ["attn", "gate"])
    assert (found["gate"].spec, found["gate"].otherwise) == ("f32[H]", "f32[B H]")


def test_integers_that_others_do_not_exceed() -> None:
    text = "tokens: (B,) int, 1 <= tokens <= frames\nframes: (B,) int\nx: (B, T), x <= y\ny: (B, T)"
    found = read(text, ["tokens", "frames", "x", "y"])
    assert {name: clue.least_of for name, clue in found.items()} == {
        "tokens": "", "frames": "tokens", "x": "", "y": "",
    }  # fmt: skip


@pytest.mark.parametrize(("text", "spec"), TREES)
def test_texts_that_say_what_a_tree_holds(text: str, spec: str) -> None:
    found = read(text, ["params", "x"])
    assert (found["params"].spec if "params" in found else "") == spec


@pytest.mark.parametrize(("text", "domains"), DOMAINS)
def test_texts_that_say_a_domain(text: str, domains: dict[str, str]) -> None:
    found = read(text, [*domains, *({"x"} - set(domains))])
    assert {name: clue.domain for name, clue in found.items() if clue.domain} == domains


@pytest.mark.parametrize("text", NOTHING)
def test_texts_that_say_neither_shape_nor_domain(text: str) -> None:
    found = read(text, ["x", "y", "gamma", "alpha"])
    assert {n: c for n, c in found.items() if c.spec or c.domain or c.rank or c.least_rank} == {}


@pytest.mark.parametrize(
    ("text", "rank"),
    [("Norm of a vector x.", 1), ("x: weight matrix", 2), ("a batch of vectors x", 2)],
)
def test_nouns_say_how_many_axes_there_are(text: str, rank: int) -> None:
    clue = read(text, ["x"])["x"]
    assert (clue.rank, clue.spec) == (rank, "")


def test_axes_left_open_have_named_ends() -> None:
    clue = read("x: (N, *, H)", ["x"])["x"]
    assert (clue.first, clue.last, clue.least_rank) == (("N",), ("H",), 2)


def test_a_tree_speaks_of_its_arrays() -> None:
    def step(state, gains):
        """One step. state is (h, c), both (b, d); gains: dict with up (d, k)"""

    found = clues(step, ["state", "gains"])
    specs = {path: of_path[0].spec for path, of_path in found.items()}
    assert specs["state[0]"] == specs["state[1]"] == "f32[b d]"
    assert specs["gains['up']"] == "f32[d k]"


def test_what_a_factory_returns_is_told_of_the_function() -> None:
    def make(groups):
        """Makes a norm.

        Returns:
            A function of x: [batch, length, channels] and gain: [channels].
        """

        def norm(x, gain):
            pass

        return norm

    found = clues(make(2), ["x", "gain"])
    assert [found[name][0].spec for name in ("x", "gain")] == [
        "f32[batch length channels]",
        "f32[channels]",
    ]


def test_a_shape_behind_a_word_is_that_of_the_result() -> None:
    text = 'how: ``"none"`` for ``(n,)``, ``"sum"``, or ``"mean"`` over those that count.'
    assert read(text, ["how"])["how"].kind is Kind.WORD


def test_words_among_which_to_choose_are_values() -> None:
    clue = read("how : {'mean', 'sum'}, optional\n    The reduction.", ["how"])["how"]
    assert (clue.values, clue.kind) == (("mean", "sum"), Kind.WORD)


def test_a_clue_names_the_words_it_rests_on() -> None:
    assert read("x: (batch, dim)", ["x"])["x"].source == "the docstring `x: (batch, dim)`"


def test_a_contradiction_says_nothing() -> None:
    assert read("Takes x of shape (n,). Then x of shape (n, k).", ["x"]) == {}


def test_a_function_is_read_with_its_surroundings() -> None:
    def factory(n: int):
        """Makes it. n: (k, k); y: (b, d)"""

        def inner(
            n,
            x,  # [b, d]
            y,
            z,
        ):
            # z: (d,)
            return n + x + y + z

        return inner

    found = clues(factory(1), ["n", "x", "y", "z"])
    specs = {name: clue.spec for name, (clue, *_) in found.items()}
    assert specs == {"x": "f32[b d]", "y": "f32[b d]", "z": "f32[d]"}
    assert found["y"][0].source == "the docstring of `factory` `y: (b, d)`"
    assert found["x"][0].source == "a comment `x: [b, d]`"


def _scaled(a, gain, axis):
    return a * gain


scaled = _scaled


def scale(x, weight, axis=-1):
    """Scales.

    Args:
        x: (n, k)
        weight: (k,)
        axis: int
    """
    x = x.astype("f")
    axis = axis % 2
    return scaled(x, weight, axis=axis)


def test_the_docstring_of_a_wrapper_speaks_of_what_it_hands_on() -> None:
    found = clues(_scaled, ["a", "gain", "axis"])
    assert {name: clue.spec for name, (clue, *_) in found.items()} == {
        "a": "f32[n k]",
        "gain": "f32[k]",
    }
    assert found["a"][0].source == "the docstring of `scale` `x: (n, k)`"


def _partition(unary, lengths):
    return unary.sum(-1) * lengths


def partition(unary, lengths=None):
    """Of unary (batch, time), where lengths (batch,) are whole numbers, at least 1."""
    if lengths is None:
        lengths = np.full(unary.shape[0], unary.shape[1])
    return _partition(np.asarray(unary), np.asarray(lengths).astype(np.int32))


def test_what_a_wrapper_converts_or_fills_in_is_what_it_was() -> None:
    found = clues(_partition, ["unary", "lengths"])
    assert {name: clue.spec for name, (clue, *_) in found.items()} == {
        "unary": "f32[batch time]",
        "lengths": "i32[batch]",
    }


def _pooled(x, counts):
    return x.sum(1) / counts[:, None]


def pooled_model(params, x, n):
    # x (B, N, 2), n (B,) >= 1; the rest is learned
    return params["head"] @ _pooled(x, n)


def test_a_comment_in_a_caller_speaks_of_what_it_hands_on() -> None:
    found = clues(_pooled, ["x", "counts"])
    assert [found[name][0].spec for name in ("x", "counts")] == ["f32[B N 2]", "f32[B]"]
    assert found["counts"][0].domain == ">= 1"


class Normalise:
    @staticmethod
    def forward(ctx, inputs, gain):
        return inputs * gain


class Normal:
    """Normalises x of shape (b, d), with weight of shape (d,)."""

    def forward(self, x):
        return Normalise.apply(x, self.weight)


def test_the_docstring_of_a_layer_speaks_of_the_function_that_it_applies() -> None:
    found = clues(Normalise.forward, ["inputs", "gain"])
    assert [found[name][0].spec for name in ("inputs", "gain")] == ["f32[b d]", "f32[d]"]


class Layer:
    """Applies x (n, k) to y (k,)."""

    @staticmethod
    def forward(ctx, x, y):
        return x @ y


def test_the_docstring_of_a_class_speaks_of_its_methods() -> None:
    found = clues(Layer.forward, ["x", "y"])
    assert [found[name][0].spec for name in "xy"] == ["f32[n k]", "f32[k]"]


# u (rows, cols)
class Commented:
    # v (batch, time), and the mask
    # w (batch,) of weights

    @staticmethod
    def forward(u, v, w):
        return u, v, w

    # z (batch, 3)
    other = 3


def test_comments_above_a_class_and_at_its_top_speak_of_its_methods() -> None:
    found = clues(Commented.forward, ["u", "v", "w"])
    specs = {name: clue[0].spec for name, clue in found.items()}
    assert specs == {"u": "f32[rows cols]", "v": "f32[batch time]", "w": "f32[batch]"}
    assert found["v"][0].source.startswith("a comment in `Commented`")


def test_sizes_of_each_axis_are_tuples_and_no_arrays() -> None:
    text = (
        ":param x: images, (N, C, H, W)\n:param stride: (sh, sw)\n:param padding: zeros, (ph, pw)"
    )
    found = read(text, ["x", "stride", "padding"])
    assert {name: (clue.kind, clue.values) for name, clue in found.items() if clue.values} == {
        "stride": (Kind.SHAPE, ((2, 1), (1, 2))),
        "padding": (Kind.SHAPE, ((1, 2), (2, 1))),
    }


def test_a_type_with_its_axes_is_a_shape() -> None:
    def f(conc, order):
        """Rates.

        conc : float[batch, species]
        order : int[reactions, species]   reaction orders
        """

    found = clues(f, ["conc", "order"])
    assert found["conc"][0].spec == "f32[batch species]"
    assert found["order"][0].spec == "i32[reactions species]"


def test_words_with_remarks_in_brackets_are_a_choice() -> None:
    def f(x, mode):
        """Filter.

        Args:
          x: signals, (batch, time).
          mode: "causal" (y[t] uses x[..t]) or "same" (centred).
        """

    assert clues(f, ["x", "mode"])["mode"][0].values == ("causal", "same")


def test_brackets_that_lead_an_entry_are_axes_where_most_are_usual() -> None:
    def f(emissions, transitions):
        """Scores.

        Args:
          emissions: [batch, time, whatever] unary scores.
          transitions: [tags, tags], entry (i, j) scores tag i followed by tag j.
        """

    found = clues(f, ["emissions", "transitions"])
    assert found["emissions"][0].spec == "f32[batch time whatever]"
    assert found["transitions"][0].spec == "f32[tags tags]"


def test_lengths_that_are_at_least_one() -> None:
    def f(x, lengths):
        """Mean over time.

        Args:
          x: [batch, time] signals.
          lengths: [batch] int, number of real steps, at least 1.
        """

    (clue,) = clues(f, ["x", "lengths"])["lengths"]
    assert (clue.spec, clue.domain) == ("i32[batch]", ">= 1")


def test_places_that_are_counted_from_one() -> None:
    def f(freq, pairs):
        """Roughness of intervals.

        Parameters
        ----------
        freq : Tensor
            Partials of the strings, ``(S, N)``.
        pairs : LongTensor
            ``(P, 4)``: lower string, its partial, upper string, its partial, with the
            partials counted from one.
        """

    (clue,) = clues(f, ["freq", "pairs"])["pairs"]
    assert (clue.spec, clue.domain) == ("i32[P 4]", ">= 1")


def test_what_is_said_of_a_flag_in_brackets_is_no_shape() -> None:
    told = "Args:\n  training: bool (static, not traced)\n  flip: bool, (default, False)\n  kept: bool, (athlete, skill)"
    found = read_text(Text("here", told, near=True), ["x", "training", "flip", "kept"])
    kinds = [found[name].kind for name in ("training", "flip", "kept")]
    assert kinds == [Kind.FLAG, Kind.FLAG, Kind.BOOLS]


@pytest.mark.parametrize(
    "said",
    [
        "zero-based, not 1-based",
        "numbered from 1, 0 is padding",
        "1-based in the file and shifted before they come here",
        "of runs with 1 GPU",
        "counted from 0, the ranks from one",
    ],
)
def test_places_that_are_not_counted_from_one(said: str) -> None:
    told = read_text(Text("here", f"ids: (n,) row numbers, int, {said}", near=True), ["ids", "x"])
    assert told["ids"].domain == ""


def test_names_above_what_is_said_of_them_need_no_type() -> None:
    def f(x, element_ok, passage_ok, floor):
        """Score of a padded batch.

        Parameters
        ----------
        x
            Scores, of shape (claims, elements).
        element_ok, passage_ok
            Boolean masks, see `Batch`.  A claim without any element scores 0.
        """

    found = clues(f, ["x", "element_ok", "passage_ok", "floor"])
    assert found["x"][0].spec == "f32[claims elements]"
    assert [found[n][0].kind for n in ("element_ok", "passage_ok")] == [Kind.BOOLS] * 2
    assert "floor" not in found


def test_several_before_one_shape_share_it() -> None:
    def f(q, k, bank):
        """Contrastive loss.

        q, k [N, D] (row i of k belongs to row i of q), bank [M, D] or None.
        """

    found = clues(f, ["q", "k", "bank"])
    assert {name: found[name][0].spec for name in found} == {"q": "f32[N D]", "k": "f32[N D]", "bank": "f32[M D]"}  # fmt: skip


class Partition:
    """Log partition. scores: (n, tags), moves: (tags, tags)."""


class Path:
    """Score of one path; same arguments as :class:`Partition`."""

    @staticmethod
    def forward(ctx, scores, moves):
        return scores


def test_a_text_that_refers_to_another_one_says_what_that_says() -> None:
    found = clues(Path.forward, ["scores", "moves"])
    assert [found[name][0].spec for name in ("scores", "moves")] == [
        "f32[n tags]",
        "f32[tags tags]",
    ]
    assert found["moves"][0].source.startswith("the docstring of `Partition`")


class Attention:
    def __call__(self, value, lengths):
        """Attends. value: (n, d), lengths: (n,) integers."""
        return self.attend(value, lengths)

    def attend(self, value, lengths):
        return value


def test_a_method_is_told_of_by_those_that_call_it_whatever_its_object_is_made_with() -> None:
    found = clues(Attention.attend, ["heads", "value", "lengths"])
    assert {n: c[0].spec for n, c in found.items()} == {"value": "f32[n d]", "lengths": "i32[n]"}


def test_axes_in_letters_as_einsum_has_them() -> None:
    text = "Args:\n  q: float ``b h q d``.\n  mask: optional boolean `b h q k`; False is left out.\n  s: a b or c."
    found = read(text, ["q", "mask", "s"])
    assert found["q"].spec == "f32[b h q d]"
    assert found["mask"].spec.endswith("[b h q k]")
    assert "s" not in found or not found["s"].spec


def test_a_shape_is_a_part_of_that_of_another() -> None:
    text = "x: (..., n)\ns: shape ``x.shape[:-1]``\nrows: x.shape[:-1] + (k,)\nsame: shape x.shape"
    found = read(text, ["x", "s", "rows", "same"])
    lead = found["x"].spec.removesuffix(" n]")
    assert found["s"].spec == f"{lead}]"
    assert found["rows"].spec == f"{lead} k]"
    assert found["same"].spec == found["x"].spec


def test_what_stands_in_brackets_behind_names_bounds_the_last_of_them() -> None:
    found = read(
        "A rate a (strictly positive), a share b (in (0, 1)), c (> 0, 1 by default).",
        ["a", "b", "c"],
    )
    assert [found[name].domain for name in "abc"] == ["> 0", "in (0, 1)", "> 0"]


def test_parts_of_a_dictionary_are_read_like_arguments() -> None:
    def plateau(x, params):
        """Params: dict of tensors. ``top`` is where it begins, ``width`` (>= 0) how long it is."""
        return x - params["top"] + params["width"]

    found = clues_of_keys(plateau, {"params": ["top", "width"]})
    assert {path: clue.domain for path, (clue,) in found.items()} == {"params['width']": ">= 0"}


def test_bounds_may_be_spelled_at_the_end_of_a_clause() -> None:
    text = """Args:
      rate, growth: Growth per period, above -1 and of the usual size.
      width: at least 1.
      power: an exponent greater than 2, by taste
      slope: above 1 it is linear
    """
    found = read(text, ["rate", "growth", "width", "power", "slope"])
    domains = [
        found[n].domain if n in found else "" for n in ("rate", "growth", "width", "power", "slope")
    ]
    assert domains == ["> -1", "> -1", ">= 1", "> 2", ""]


@pytest.mark.parametrize(
    "said",
    [
        "at least the number of samples, even or odd",
        "int, at least the length of the window",
        "static int, no less than the size of a block",
        "no less than the number of rows",
        "static int, >= number of bins",
    ],
)
def test_a_whole_number_that_no_axis_exceeds_is_a_long_one(said: str) -> None:
    clue = read(f"n_fft: {said}", ["n_fft"])["n_fft"]
    assert (clue.kind, clue.values, clue.domain) == (Kind.WHOLE, (8, 7), ">= 7")


@pytest.mark.parametrize(
    "said", ["at most the number of samples", "at least the length of the arm, in metres"]
)
def test_other_bounds_and_lengths_are_no_whole_numbers(said: str) -> None:
    found = read(f"reach: {said}", ["reach"])
    assert "reach" not in found or found["reach"].kind is not Kind.WHOLE


def test_what_is_told_of_a_parameter_is_not_told_of_a_key() -> None:
    def score(params, users):
        """users (B,), whose rows of `item` are (N, K)."""
        return params["user"][users]

    assert "params['user']" not in clues_of_keys(score, {"params": ["user", "item"]})


def read_one(text: str, *names: str) -> dict[str, Clue]:
    return read_text(Text("the docstring", text, near=True), names)


def test_integers_of_a_sentence() -> None:
    found = read_one("log pmf of integer counts y, normalised over 0..terms-1", "y", "log_lam")
    assert found["y"].kind is Kind.INTEGERS
    assert read_one("the integer n of rows", "n").get("n", Clue("")).kind is not Kind.INTEGERS


def test_a_parameter_may_be_called_returns() -> None:
    text = (
        "Args:\n    returns: Log returns, shape (assets, time).\n\nReturns:\n    Shape (assets,).\n"
    )
    assert read_one(text, "returns", "mask")["returns"].spec == "f32[assets time]"


@pytest.mark.parametrize(
    "said",
    [
        "x (T, C) and alpha is (T, T) or (T, T, C).",
        "x (T, C) and ``alpha`` either (T, T) or (T, T, C).",
        "x (T, C) and alpha either (T, T), one number per pair of towers, or (T, T, C).",
    ],
)
def test_a_second_shape_behind_words(said: str) -> None:
    found = read_one(said, "x", "alpha")
    assert (found["alpha"].spec, found["alpha"].otherwise) == ("f32[T T]", "f32[T T C]")


@pytest.mark.parametrize(
    "said",
    [
        "bool of the shape of ``x``, the entries that are spared, or ``None``",
        "bool of x's shape",
        "bool, with the shape of x",
    ],
)
def test_a_mask_of_the_shape_of_another(said: str) -> None:
    assert read_one(f"x: (B, T)\nkeep: {said}", "x", "keep")["keep"].spec == "bool[B T]"


def test_a_second_shape_with_more_axes_is_kept() -> None:
    found = read_one("statistics of a batch; x (B, C) or (B, T, C), alpha (C,).", "x", "alpha")
    assert (found["x"].spec, found["x"].otherwise) == ("f32[B C]", "f32[B T C]")
    assert found["alpha"].otherwise == ""


def test_a_word_or_none() -> None:
    found = read_one('norm: "ortho" or None (plain cosine sum).', "norm")
    assert found["norm"].values == ("ortho", None)


def test_a_bound_behind_the_formula_that_tells_what_an_argument_is() -> None:
    def intensity(x: Any) -> Any:
        """Intensity in units of I0; x = h nu / k T >= 0."""

    (clue,) = clues(intensity, ["x"])["x"]
    assert clue.domain == ">= 0"


@pytest.mark.parametrize(
    "text",
    [
        "The cube of x. At x = 0 the curvature changes to > 0.",
        "Solves A x = b where b > 0.",
        "One, for x = y and y < 1.",
        "With x = 1 one gets a value > 2.",
        "x = 0 gives ridge / lasso with penalty >= 1.",
    ],
)
def test_an_equation_that_is_no_formula_bounds_nothing(text: str) -> None:
    def function(x: Any) -> Any: ...

    function.__doc__ = text
    assert not [c.domain for c in clues(function, ["x"]).get("x", ()) if c.domain]


def test_a_power_among_the_dimensions() -> None:
    def integral(capacity: Any) -> Any:
        """The integral for a capacity (2**n,) of subsets."""

    (clue,) = clues(integral, ["capacity"])["capacity"]
    assert clue.spec == "f32[2**n]"


def test_a_bound_is_read_before_and_within_brackets() -> None:
    found = read_one("power: (n,) exponents, larger than 1 (1.25 for usual pipes).", "power")
    assert found["power"].domain == "> 1"
    found = read_one(
        "flow [B, C] (non-negative), priority [C] (positive) and gain [C]",
        "flow",
        "priority",
        "gain",
    )
    assert [found[n].domain for n in ("flow", "priority", "gain")] == [">= 0", "> 0", ""]


@pytest.mark.parametrize(
    "text",
    [
        "the flux x [B] (positive upward)",
        "the gate x [B] (positive opens, negative closes)",
        "x [B] (> 0 for active rows, < 0 for the others)",
        "x (n, k) (positive entries only in the first column)",
        "labels x [B] (>= 0, -1 for padding)",
        "x [B] (< 0: padded)",
        "x [n] (> 2 axes are flattened)",
        "x [N] (in [0, 1] for uint8 pictures)",
        "y = x(n) (positive)",
        "x: softer below 1 (flat), sharper above it",
        "x: no larger than 1 (a fraction)",
        "x: never less than 0 (see below)",
        "x: above 1 (softer) or below 1 (sharper)",
        "x: larger than 1 (typical 2) focuses on hard examples",
    ],
)
def test_what_stands_in_brackets_is_not_always_a_domain(text: str) -> None:
    found = read_one(text, "x")
    assert "x" not in found or not found["x"].domain


@pytest.mark.parametrize(
    "said",
    [
        "``speed`` and ``feed`` are positive and of shape [parts, cuts]",
        "speed and feed are positive floats with shape [parts, cuts]",
    ],
)
def test_a_shape_stands_behind_a_domain(said: str) -> None:
    found = read_text(Text("here", said, near=True), ["speed", "feed"])
    assert [(c.spec, c.domain) for c in found.values()] == [("f32[parts cuts]", "> 0")] * 2


@pytest.mark.parametrize("unit", ["miles", "celsius", "kilowatts", "dimensionless", "floats"])
def test_units_above_each_other_are_no_axes(unit: str) -> None:
    assert read_text(Text("here", f"a: [{unit}]\nb: [{unit}]", near=True), ["a", "b"]) == {}


def test_a_plural_above_itself_is_an_axis_and_a_unit_is_none() -> None:
    text = "log_c: [materials]\nn: [materials]\nm: [kilometres]\nk: [kilometres]"
    found = read_text(Text("here", text, near=True), ["log_c", "n", "m", "k"])
    assert {name: clue.spec for name, clue in found.items()} == {
        "log_c": "f32[materials]",
        "n": "f32[materials]",
    }


@pytest.mark.parametrize(
    ("said", "domain"),
    [
        ("(C,) one signed curvature per curve, positive when the track turns left", ""),
        ("(C,) positive downwards", ""),
        ("(C,) charge, positive if leaving", ""),
        ("(C,) unsigned distances, positive", "> 0"),
        ("(N,) stress at the mouth. Tension is positive, compression negative.", ""),
        ("(N,) stress. Tension is positive, and the compression negative.", ""),
        ("(N,) rates, strictly positive for all inputs, negative for none", "> 0"),
        ("(N,) balances, positive for credit and negative for debit", ""),
        ("(N,) positive rates; negative rates are refused", "> 0"),
        ("(N,) positive scales, none of them zero or negative.", "> 0"),
        ("(N,) positive values only, not negative.", "> 0"),
        ("(N,) positive rates, an error is raised if any is negative", "> 0"),
        ("(N,) positive distances, the energies they give are negative.", "> 0"),
        ("(N,) rates, which must be positive, since negative ones are no rates", "> 0"),
        ("(C,) rates, strictly positive in every cell", "> 0"),
        ("(C,) must be positive if alpha is", "> 0"),
        ("(C,) signed correlation, in (-1, 1)", "in (-1, 1)"),
        ("(C,) whitened counts", ""),
        ("(C,) z-scores of counts", ""),
        ("(C,) weights, positive and finite", "> 0"),
        ("(C,) virtual tooth counts, real valued", ">= 0"),
        ("(C,) expected photon counts.", ">= 0"),
        ("(C,) log counts", ""),
        ("(C,) differences of counts", ""),
        ("(C,) counts, background subtracted", ""),
    ],
)
def test_what_has_two_directions_has_no_sign_and_counts_have_one(said: str, domain: str) -> None:
    assert read(f"x: {said}", ["x"])["x"].domain == domain


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        (
            "``start`` (patients,), ``log_tau`` holds the two log time constants: socket off, socket on.",
            {"start": "f32[patients]", "log_tau": "f32[2]"},
        ),
        (
            "start: (n,)\nlog_tau: holds the three rates: slow, mean and fast",
            {"start": "f32[n]", "log_tau": "f32[3]"},
        ),
        ("start: (n,)\nlog_tau: the two rates of each cell: on, off", {"start": "f32[n]"}),
        ("start: (n,)\nlog_tau: holds the two rates of each cell: on, off", {"start": "f32[n]"}),
        ("start: (n,)\nlog_tau: holds the three axes: batch, time and channel", {"start": "f32[n]"}),
        ("start: (n,)\nlog_tau: holds the two rates: slow, mean and fast", {"start": "f32[n]"}),
        ("start: (n,)\nlog_tau: holds the two rates, which are positive", {"start": "f32[n]"}),
    ],
)  # fmt: skip
def test_what_is_counted_and_named_is_as_long(text: str, specs: dict[str, str]) -> None:
    found = {name: clue.spec for name, clue in read(text, ["start", "log_tau"]).items()}
    assert {name: spec for name, spec in found.items() if spec} == specs


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("integer unit of each slice; a unit covers many slices.", Kind.INTEGERS),
        ("integer bin for every sample", Kind.INTEGERS),
        ("integer number of slices", Kind.WHOLE),
        ("integer seed for each call", Kind.WHOLE),
        ("int steps per second", Kind.WHOLE),
    ],
)
def test_an_integer_of_each_is_an_array(said: str, kind: Kind) -> None:
    assert read(f"x: (n,)\nunit: {said}", ["x", "unit"])["unit"].kind is kind


@pytest.mark.parametrize(
    ("said", "domain"),
    [
        (
            "The model. gap is the way to the hands: positive when following, negative when ahead.",
            "",
        ),
        ("The model. Of each track the gap is positive towards the left.", ""),
        ("The model. gap is the way to the hands: positive, in metres.", "> 0"),
        ("The gap must be positive, the lane as it is.", "> 0"),
    ],
)
def test_a_sign_that_a_sentence_calls_a_direction_is_no_bound(said: str, domain: str) -> None:
    found = read_text(Text("here", said, near=True), ["gap", "lane"])
    assert (found["gap"].domain if "gap" in found else "") == domain


@pytest.mark.parametrize(
    "said",
    [
        "sharp, 0-d, in 1/V.",
        "sharp: 0-d tensor",
        "sharp (0-d)",
        "sharp is a zero-dimensional array",
        "``sharp`` in cm, a scalar.",
        "sharp in 1/V, 0-d.",
    ],
)
def test_what_has_no_axes_is_a_number(said: str) -> None:
    text = f"volts (stacks, cells); {said}"
    assert read_text(Text("here", text, near=True), ["volts", "sharp"])["sharp"].spec == "f32[]"


@pytest.mark.parametrize(
    "said", ["sharp: 0-d, 1-d or 2-d array", "sharp is a 0-D, 1-D or 2-D tensor of logits."]
)
def test_what_has_any_number_of_axes_is_no_number(said: str) -> None:
    found = read_text(Text("here", said, near=True), ["sharp"])
    assert "sharp" not in found or found["sharp"].kind is not Kind.NUMBER


@pytest.mark.parametrize("said", ["sharp (0-d or (n,))", "sharp: a 0-d array or (n,)"])
def test_what_may_have_no_axes_may_have_some(said: str) -> None:
    assert read_text(Text("here", said, near=True), ["sharp"])["sharp"].spec == "f32[n]"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("kernel: int or (kh, kw).  stride: int or pair", Kind.WHOLE),
        ("kernel : int or pair of ints", Kind.WHOLE),
        ("kernel: int or tuple", Kind.WHOLE),
        ("kernel: int or (kh, kw) array", Kind.INTEGERS),
        ("kernel: int or (n,)", Kind.INTEGERS),
        ("kernel: int or (B, T) token ids", Kind.INTEGERS),
        ("kernel: int or (rows, cols) table", Kind.INTEGERS),
    ],
)
def test_a_whole_number_or_two_of_them_is_no_array(said: str, kind: Kind) -> None:
    assert read_text(Text("here", said, near=True), ["kernel", "stride"])["kernel"].kind is kind
