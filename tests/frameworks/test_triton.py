"""Triton kernels where there is no GPU: interpreted, traced, held to their memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.needs("torch", "torchax", "triton"), pytest.mark.slow]
KERNELS = ROOT / "fixtures/kernels"
# What is asked is asked of another process: here Triton may have been imported without its interpreter.
PRELUDE = """
from gradcheck_cli.frameworks.torch.triton.arrival import interpret_kernels
interpret_kernels()
import torch, triton, triton.language as tl
"""


def asked(text: str, folder: Path) -> str:
    """What a program prints that begins with Triton interpreted; kernels need a file of their own."""
    file = folder / "asked.py"
    file.write_text(PRELUDE + text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, cwd=KERNELS, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{KERNELS}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_give_what_plain_formulas_give(tmp_path: Path) -> None:
    said = asked(
        """
import torch.nn.functional as F
from triton_right import Gate, Loss, Norm, Recurrence
def recurrence(a, b):
    h, rows = torch.zeros(len(a)), []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    return torch.stack(rows, 1)
torch.manual_seed(0)
cases = [
    (Gate, lambda a, b: a * torch.sigmoid(1.5 * a) * b, torch.randn(3, 7), torch.randn(3, 7)),
    (Norm, lambda x, w: F.rms_norm(x, (5,), w, 1e-6), torch.randn(4, 5), torch.randn(5)),
    (Loss, lambda x, t: F.cross_entropy(x, t, reduction="none"), torch.randn(4, 5), torch.tensor([0, 3, 3, 1])),
    (Recurrence, recurrence, torch.rand(3, 6), torch.randn(3, 6)),
]
for cls, formula, *given in cases:
    ours, theirs = ([x.clone().requires_grad_(x.is_floating_point()) for x in given] for _ in "ab")
    y, wanted = cls.apply(*ours), formula(*theirs)
    g = torch.randn_like(wanted)
    y.backward(g), wanted.backward(g)
    off = [(y - wanted).abs().max(), *((a.grad - b.grad).abs().max() for a, b in zip(ours, theirs) if a.grad is not None)]
    print(cls.__name__, max(map(float, off)) < 1e-5)
""",
        tmp_path,
    )
    assert said.split() == ["Gate", "True", "Norm", "True", "Loss", "True", "Recurrence", "True"]


def test_bfloat16_is_added_as_numbers_and_libraries_are_there(tmp_path: Path) -> None:
    said = asked(
        """
from triton.language.extra.libdevice import tanh, rsqrt
@triton.jit
def kernel(x_ptr, y_ptr, n: tl.constexpr):
    at = tl.arange(0, n)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, (x + x).to(tl.float32) + tanh(0.0 * x.to(tl.float32)) + rsqrt(x.to(tl.float32)))
x, y = torch.tensor([1.0, 4.0, 0.25, 1.0], dtype=torch.bfloat16), torch.empty(4)
kernel[(1,)](x, y, n=4)
print(y.tolist())
""",
        tmp_path,
    )
    assert said.strip() == "[3.0, 8.5, 2.5, 3.0]"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("tl.store(y_ptr + at, tl.load(x_ptr + at + 1))", "the kernel `kernel` reads element 4 of `x_ptr`, which has 4"),
        ("tl.store(y_ptr + at - 2, tl.load(x_ptr + at))", "the kernel `kernel` writes element -2 of `y_ptr`, which has 4"),
        ("tl.atomic_add(y_ptr + 2 * at, tl.load(x_ptr + at))", "the kernel `kernel` reads element 4 of `y_ptr`, which has 4"),
    ],
)  # fmt: skip
def test_a_kernel_that_leaves_its_arrays_says_where(tmp_path: Path, body: str, said: str) -> None:
    text = f"""
@triton.jit
def kernel(x_ptr, y_ptr, n: tl.constexpr):
    at = tl.arange(0, n)
    {body}
try:
    kernel[(1,)](torch.ones(4), torch.zeros(4), n=4)
except IndexError as error:
    print(error)
"""
    assert said in asked(text, tmp_path)


def test_what_nobody_has_written_is_known(tmp_path: Path) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.unwritten import first_unwritten
@triton.jit
def kernel(y_ptr, n: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, n), 1.0)
y = torch.empty(6)
kernel[(1,)](y, n=4)
print(first_unwritten(y), y[:4].tolist(), bool(y[4:].isnan().all()))
y[4:] = 0
print(first_unwritten(y), first_unwritten(torch.zeros(2)))
""",
        tmp_path,
    )
    assert said.split("\n")[:2] == ["4 [1.0, 1.0, 1.0, 1.0] True", "None None"]


def test_what_is_added_to_what_nobody_has_written_stays_unknown(tmp_path: Path) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.unwritten import first_unwritten
@triton.jit
def kernel(y_ptr, n: tl.constexpr):
    tl.atomic_add(y_ptr + tl.arange(0, n), 1.0)
y, z = torch.empty(4), torch.zeros(4)
kernel[(2,)](y, n=4)
kernel[(2,)](z, n=4)
print(first_unwritten(y), first_unwritten(z), z.tolist())
""",
        tmp_path,
    )
    assert said.split("\n")[0] == "0 None [2.0, 2.0, 2.0, 2.0]"


def test_kernels_are_traced_into_programs_that_are_differentiated(tmp_path: Path) -> None:
    said = asked(
        """
import jax, jax.numpy as jnp
from gradcheck_cli.frameworks.torch.trace import traced
from triton_right import Gate
class Context:
    def save_for_backward(self, *tensors): pass
def forward(a, b): return (Gate.forward(Context(), a, b),)
aval = jax.ShapeDtypeStruct((3, 5), jnp.float32)
jaxpr = traced(forward, (aval, aval))
run = lambda a, b: jax.extend.core.jaxpr_as_fun(jaxpr)(a, b)[0].sum()
a, b = jnp.linspace(-2, 2, 15).reshape(3, 5), jnp.linspace(1, 2, 15).reshape(3, 5)
plain = lambda a, b: (a * jax.nn.sigmoid(1.5 * a) * b).sum()
print(all(jnp.allclose(x, y, rtol=1e-5) for x, y in zip(jax.grad(run, (0, 1))(a, b), jax.grad(plain, (0, 1))(a, b))))
""",
        tmp_path,
    )
    assert said.strip() == "True"


def test_products_leave_out_what_is_known_to_be_nothing(tmp_path: Path) -> None:
    said = asked(
        """
import jax, jax.numpy as jnp, numpy as np
from gradcheck_cli.frameworks.torch.trace import traced
@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    i, j = at[:, None], at[None, :]
    a = tl.load(a_ptr + i * k + j, mask=(i < m) & (j < k), other=0.0)
    b = tl.load(b_ptr + j * k + i, mask=(j < n) & (i < k), other=0.0)
    c = tl.dot(2 * a.to(tl.float32), b) + tl.dot(a, tl.trans(tl.trans(b)))
    tl.store(c_ptr + i * n + j, c, mask=(i < m) & (j < n))
def product(a, b):
    c = torch.empty(a.shape[0], b.shape[0])
    kernel[(1,)](a, b, c, a.shape[0], b.shape[0], a.shape[1], BLOCK=16)
    return (c,)
avals = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((3, 4), (5, 4))]
jaxpr = traced(product, avals)
a, b = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(5, 4)
print(jnp.allclose(jax.extend.core.jaxpr_as_fun(jaxpr)(a, b)[0], 3 * a @ b.T))
print({str(e.invars[0].aval.shape) for e in jaxpr.eqns if e.primitive.name == "dot_general"})
""",
        tmp_path,
    )
    assert said.split("\n")[:2] == ["True", "{'(3, 4)'}"]


def test_what_the_language_has_besides(tmp_path: Path) -> None:
    said = asked(
        """
from triton.language.extra.libdevice import lgamma
@triton.jit
def kernel(x_ptr, y_ptr, top_ptr, n, twice, BLOCK: tl.constexpr = 8):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = x
    for step in tl.range(0, 8, step=4):
        y += step.to(tl.float32)
    y += lgamma(x + 1) + lgamma(x)
    if twice:
        y *= 2
    tl.store(y_ptr + at, y, mask=at < n)
    tl.atomic_max(top_ptr + at * 0, x, mask=at < n)
x, y, top = torch.tensor([1.0, 2.0, 3.0]), torch.empty(3), torch.full((1,), -1.0)
kernel[lambda meta: [triton.cdiv(meta["n"], meta["BLOCK"])]](x, y, top, 3, True)
print(torch.allclose(y, 2 * (x + 4 + torch.lgamma(x + 1) + torch.lgamma(x))), top.item())
""",
        tmp_path,
    )
    assert said.strip() == "True 3.0"


def test_what_is_empty_is_left_alone_where_it_cannot_be_marked(tmp_path: Path) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.unwritten import first_unwritten
def empty(): return torch.empty(3)
print(bool(empty().isnan().all()))  # no kernel is defined yet, so nothing was changed
@triton.jit
def kernel(x_ptr): pass
print(bool(empty().isnan().all()))
with torch.inference_mode():
    torch.empty(2)
torch.empty_like(torch.eye(2).to_sparse())
torch.func.vmap(lambda x: torch.empty_like(x).fill_(1.0))(torch.ones(2, 2))
base = torch.zeros(6)
torch.empty(3, out=base[3:])
x = torch.empty(4)
x.numpy()[:] = 1
print(first_unwritten(base), first_unwritten(x), first_unwritten(torch.empty(4)[1:]))
""",
        tmp_path,
    )
    first, then, marks = said.split("\n")[:3]
    assert (then, marks) == ("True", "None None 0")
    assert first in ("True", "False")  # whatever lies in that memory


def test_what_is_left_unread_at_the_end_only_counts(tmp_path: Path) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.launched import launched
@triton.jit
def kernel(x_ptr, y_ptr, stride, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y_ptr + at, tl.load(x_ptr + stride * at))
x, y = torch.ones(8), torch.empty(4)
with launched() as seen:
    kernel[(1,)](x, y, 1, n=4)
print(seen.unread(x), seen.kernels[0].programs)
with launched() as seen:
    kernel[(1,)](x, y, 2, n=4)
print(seen.unread(x), seen.unread(y))
""",
        tmp_path,
    )
    assert said.split("\n")[:2] == ["4 1", "0 0"]


def test_of_many_programs_the_first_and_the_last_are_enough_where_shapes_are_asked_for(
    tmp_path: Path,
) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.launched import launched
@triton.jit
def kernel(x_ptr, y_ptr, columns):
    at = tl.program_id(0) * columns + tl.program_id(1)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
def written(rows, columns):
    y = torch.zeros(rows, columns)
    kernel[(rows, columns)](torch.ones(rows, columns), y, columns)
    return y.flatten()
with launched(some=True) as seen:
    print(int(written(4, 4).sum()), seen.left_out, written(9, 5).nonzero().flatten().tolist(), seen.left_out)
print([k.programs for k in seen.kernels])
with launched(some=True), launched() as seen:
    print(int(written(9, 5).sum()), seen.left_out)
print(int(written(9, 5).sum()))
""",
        tmp_path,
    )
    ends = [*range(8), *range(37, 45)]
    assert said.split("\n")[:4] == [f"16 False {ends} True", "[16, 45]", "45 False", "45"]


def test_scans_from_the_other_end_are_traced(tmp_path: Path) -> None:
    said = asked(
        """
import jax, jax.numpy as jnp, numpy as np
from gradcheck_cli.frameworks.torch.trace import traced
@triton.jit
def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.cumsum(tl.load(x_ptr + at), axis=0, reverse=True))
def later(x):
    y = torch.empty(4)
    kernel[(1,)](x, y, BLOCK=4)
    return (y,)
jaxpr = traced(later, [jax.ShapeDtypeStruct((4,), jnp.float32)])
print(jax.extend.core.jaxpr_as_fun(jaxpr)(np.arange(4.0, dtype=np.float32))[0].tolist())
""",
        tmp_path,
    )
    assert said.split("\n")[0] == "[6.0, 6.0, 5.0, 3.0]"


def test_a_batch_is_near_its_rows_but_for_numbers_that_are_taken_for_0(tmp_path: Path) -> None:
    said = asked(
        """
import numpy as np
from gradcheck_cli.frameworks.shared.rows import Row
from gradcheck_cli.frameworks.torch.triton.compiled import is_near
def near(many, one, dtype="float32"):
    return is_near(Row([np.array([many])], [], None, None), Row([np.array(one)], [], None, None), 0, dtype)
print(near([2.56e-37, 1e-36], [2.49e-37, 1e-36]), near([2.56e-37, 1e-36], [2.49e-37, 1e-36], "float64"))
print(near([1.0, 2.0], [1.0, 2.0000002]), near([1.0, 2.0], [1.0, 2.1]))
""",
        tmp_path,
    )
    assert said.split("\n")[:2] == ["True False", "True False"]


def test_how_kernels_cut_their_arrays(tmp_path: Path) -> None:
    said = asked(
        """
from gradcheck_cli.frameworks.torch.triton.launched import launched
from triton_right import Gate, Norm
with launched() as seen:
    Norm.apply(torch.ones(4, 3), torch.ones(3))
print(sorted((c.size, c.block) for k in seen.kernels for c in k.cuts))
with launched() as seen:
    Gate.apply(torch.ones(4, 3), torch.ones(4, 3))
print(seen.kernels[0].cuts, seen.unread(torch.ones(2)))
""",
        tmp_path,
    )
    assert said.split("\n")[:2] == ["[(3, 4), (4, 4)]", "() 0"]


def test_nothing_of_triton_is_imported_by_the_room_until_somebody_imports_it() -> None:
    code = "import sys, gradcheck_cli.frameworks.torch.framework; print('triton' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "False"


def test_this_tritons_interpreter_has_what_is_used_of_it(tmp_path: Path) -> None:
    said = asked(
        "from gradcheck_cli.frameworks.torch.triton.interpreter import lacking; print(lacking())",
        tmp_path,
    )
    assert said.strip() == "[]"
