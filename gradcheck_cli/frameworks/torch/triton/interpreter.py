"""Triton's interpreter, with what it lacks: loads and stores that can be traced, the compiler's types, no driver."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter

from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.torch.triton import gpu_questions, libdevice
from gradcheck_cli.frameworks.torch.triton.launch import Launch, converted, memories, number
from gradcheck_cli.frameworks.torch.triton.numbers import BFLOAT16, Numbers, is_traced
from gradcheck_cli.frameworks.torch.triton.padding import combined, padded, padding_of, product
from gradcheck_cli.frameworks.torch.triton.reductions import Interface, reduced, scanned
from gradcheck_cli.frameworks.torch.triton.unwritten import mark_what_is_empty

_RANGE = "_cgcheck_range"
_LIBRARIES = ("torch", "triton")  # which have kernels of their own
# What is used of it that is not public. Tried with Triton 3.6.0 and 3.9.0.
_USED = (
    "np", "_get_np_dtype", "_implicit_cvt", "_validate_np_data_size", "ASTTransformer", "FunctionRewriter",
    "GridExecutor", "InterpreterBuilder", "InterpreterError", "ReduceOps", "ReduceScanOpInterface", "ScanOps",
    "InterpretedFunction", "TensorHandle", "interpreter_builder", "interpreter_semantic",
)  # fmt: skip


def prepare() -> None:
    """From now on kernels run without a GPU and are traced; once is enough, and none of it where this Triton is another one.

    What is asked of PyTorch itself is changed only once a kernel of the user's is defined: PyTorch has some of its own.
    """
    if interpreter.GridExecutor is Launch or lacking():
        return
    libdevice.fill_libraries()
    _wait_for_a_kernel()
    _give_types()
    interpreter.np = Numbers()
    interpreter.InterpreterBuilder = Builder
    interpreter.interpreter_builder.__class__ = Builder
    interpreter.GridExecutor = Launch
    interpreter._implicit_cvt = converted(interpreter._implicit_cvt)
    interpreter.ReduceScanOpInterface.to_tensor = Interface.to_tensor
    interpreter.ReduceOps.generic_reduce = reduced
    interpreter.ScanOps.generic_scan = scanned
    setattr(interpreter, _RANGE, _steps)
    interpreter.FunctionRewriter.ast_transformer = _Loops()
    _tune_nothing()


def _wait_for_a_kernel() -> None:
    """The first kernel that is no library's makes tensors without contents known, and has questions about a GPU answered."""
    own = interpreter.InterpretedFunction.__init__
    seen: list[str] = []

    def made(kernel: Any, fn: Any, **options: Any) -> None:
        own(kernel, fn, **options)
        home = str(getattr(fn, "__module__", ""))
        if not seen and home.partition(".")[0] not in _LIBRARIES:
            seen.append(home)
            gpu_questions.answer()
            mark_what_is_empty()

    interpreter.InterpretedFunction.__init__ = made


def _tune_nothing() -> None:
    """The first configuration that a tuner leaves over, in place of all of them, one after the other."""
    tuner: Any = triton.runtime.autotuner.Autotuner
    own = tuner.prune_configs

    def first(self: Any, given: Any) -> Any:
        try:
            left = list(own(self, given))
        except (AttributeError, RuntimeError):  # it asks a model of a GPU
            left = []
        return (left or self.configs)[:1]

    tuner.prune_configs = first


def lacking() -> list[str]:
    """What this Triton's interpreter does not have of what is used of it."""
    return [name for name in _USED if not hasattr(interpreter, name)]


def _give_types() -> None:
    """bfloat16 as it is, in place of its bits; sizes are asked of numpy's arrays alone."""
    own, size = interpreter._get_np_dtype, interpreter._validate_np_data_size

    def dtype(kind: Any) -> Any:
        element = kind.element_ty if isinstance(kind, tl.block_type) else kind
        return BFLOAT16 if element == tl.bfloat16 else own(kind)

    interpreter._get_np_dtype = dtype
    interpreter._validate_np_data_size = lambda data, kind: is_traced(data) or size(data, kind)


class Builder(interpreter.InterpreterBuilder):  # type: ignore[misc]
    """The builder of operations, with those that cannot be traced as they are."""

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *_: Any) -> Any:
        dtype = ptrs.get_element_ty()
        kind = interpreter._get_np_dtype(dtype)
        lanes, chosen = _lanes(mask, ptrs)
        instead = np.zeros((), kind) if other is None else other.data
        values: Any = Numbers().broadcast_to(instead, ptrs.data.shape)
        here = memories()
        for index, own, places in self._parts(ptrs, lanes, chosen, "reads"):
            read = here.each[index].load(places, own, kind)
            values = read if own.all() else Numbers().where(own, read, values)
        if chosen is not None:
            values = jnp.where(chosen, values, instead)
        loaded = interpreter.TensorHandle(_of_kind(values, kind), dtype)
        empty = not is_traced(instead) and not np.any(instead)
        return padded(loaded, ~lanes) if empty and is_traced(values) else loaded

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any) -> None:
        lanes, chosen = _lanes(mask, ptrs)
        here, kind = memories(), interpreter._get_np_dtype(ptrs.get_element_ty())
        spread: Any = Numbers().broadcast_to(value.data, ptrs.data.shape)
        for index, own, places in self._parts(ptrs, lanes, chosen, "writes"):
            memory, new = here.each[index], spread[own]
            if chosen is not None:
                new = jnp.where(chosen[own], new, memory.flat[places[own]])
            memory.store(places[own], new, kind)

    def _parts(
        self, ptrs: Any, lanes: Any, chosen: Any, does: str
    ) -> Iterator[tuple[int, Any, Any]]:
        """Each memory that a block of pointers points into, with its lanes; these have to be inside of it.

        Where traced floats choose among the lanes, those outside are taken for not chosen.
        """
        here = memories()
        for index, own, places in here.parts(ptrs.data, lanes):
            if chosen is None:
                here.hold(index, places[own], self.grid_idx, does)
                yield index, own, places
            else:
                yield index, own & here.inside(index, places), places

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, *_: Any) -> Any:  # noqa: N803
        """One lane after the other, as the programs run: sums may be in any order, the rest is in that of the lanes."""
        name = str(rmwOp).rpartition(".")[2]
        old = self.create_masked_load(ptr, mask, None)
        lanes, chosen = _lanes(mask, ptr)
        if chosen is not None and name not in ("ADD", "FADD"):
            raise Untraceable(
                f"traced floats choose where the atomic operation {name.lower()} acts"
            )
        here, kind = memories(), interpreter._get_np_dtype(ptr.get_element_ty())
        spread: Any = Numbers().broadcast_to(val.data, ptr.data.shape)
        for index, own, places in self._parts(ptr, lanes, chosen, "writes"):
            new = spread[own] if chosen is None else jnp.where(chosen[own], spread[own], 0)
            here.each[index].combine(name, places[own], new, kind)
        return old

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, *_: Any) -> Any:
        old = self.create_load(ptr, None, None, False)
        if is_traced(old.data):
            raise Untraceable("a kernel compares and swaps what is traced")
        equal = interpreter.TensorHandle(old.data == cmp.data, tl.int1)
        self.create_masked_store(ptr, val, equal)
        return old

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        kind = interpreter._get_np_dtype(dst_type)
        made = interpreter.TensorHandle(src.data.astype(kind), dst_type.scalar)
        return padded(made, padding_of(src)) if is_traced(made.data) else made

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        small = any(kind.scalar.primitive_bitwidth == 8 for kind in (src.dtype, dst_type))
        if not small:
            return self.cast_impl(src, dst_type)
        if is_traced(src.data):
            raise Untraceable("floats of 8 bits have no program over the reals")
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    def create_bitcast(self, src: Any, dst_type: Any) -> Any:
        if is_traced(src.data):
            raise Untraceable("a kernel reads the bits of a traced float")
        return super().create_bitcast(src, dst_type)

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        return self._spread(arg, ret_ty.shape)

    def create_unsplat(self, arg: Any) -> Any:
        return interpreter.TensorHandle(arg.data.reshape(-1)[:1], arg.dtype.scalar)

    def create_broadcast(self, arg: Any, shape: Any) -> Any:
        return self._spread(arg, shape)

    def create_reshape(self, arg: Any, shape: Any, *_: Any) -> Any:
        return interpreter.TensorHandle(arg.data.reshape(_sizes(shape)), arg.dtype.scalar)

    def _spread(self, arg: Any, shape: Any) -> Any:
        data = Numbers().broadcast_to(arg.data, _sizes(shape))
        made = interpreter.TensorHandle(data, arg.dtype.scalar)
        return padded(made, padding_of(arg)) if is_traced(data) else made

    def create_fabs(self, arg: Any) -> Any:
        return self.unary_op(arg, interpreter.np.abs)

    def create_erf(self, arg: Any) -> Any:
        if is_traced(arg.data):
            return interpreter.TensorHandle(jax.scipy.special.erf(arg.data), arg.dtype.scalar)
        return super().create_erf(arg)

    def create_dot(self, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        if any(each.dtype.primitive_bitwidth == 8 for each in (a, b)):
            return super().create_dot(a, b, d, *rest)
        if is_traced([a.data, b.data]) and a.data.ndim == 2:
            data, zero = product(a, b, d.data.dtype)
            made = interpreter.TensorHandle(data + d.data, d.dtype.scalar)
            return padded(made, zero & padding_of(d))
        left, right = (each.data.astype(d.data.dtype) for each in (a, b))
        return interpreter.TensorHandle(interpreter.np.matmul(left, right) + d.data, d.dtype.scalar)

    def create_trans(self, arg: Any, perm: Any) -> Any:
        return padded(super().create_trans(arg, perm), np.transpose(padding_of(arg), perm))

    def create_expand_dims(self, arg: Any, axis: Any) -> Any:
        return padded(super().create_expand_dims(arg, axis), np.expand_dims(padding_of(arg), axis))

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        made = super().binary_op(lhs, rhs, op)
        zero = combined(op.__name__, lhs, rhs) if is_traced(made.data) else None
        return made if zero is None else padded(made, zero)


def _lanes(mask: Any, ptrs: Any) -> tuple[Any, Any]:
    """The lanes that may be active, and which of them are where that rests on traced floats."""
    shape = np.shape(ptrs.data)
    if is_traced(mask.data):
        return np.ones(shape, bool), jnp.broadcast_to(mask.data, shape)
    return np.broadcast_to(np.asarray(mask.data, bool), shape), None


def _sizes(shape: Any) -> tuple[int, ...]:
    """A shape, in whatever way the language holds one."""
    return tuple(int(getattr(size, "value", size)) for size in shape)


def _of_kind(values: Any, kind: Any) -> Any:
    return values if values.dtype == kind else values.astype(kind)


class _Loops(interpreter.ASTTransformer):  # type: ignore[misc]
    """Loops whose variables are whole numbers of 32 bits, as the compiler's are, not Python's."""

    def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802
        self.generic_visit(node)
        call = node.iter
        if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) == "range":  # fmt: skip
            call.func = ast.Name(id=_RANGE, ctx=ast.Load())
        return node


def _steps(arg1: Any, arg2: Any = None, step: Any = None, **_: Any) -> Iterator[Any]:
    """`range` and `tl.range` of a kernel."""
    start, end = (0, arg1) if arg2 is None else (arg1, arg2)
    for place in range(_whole(start), _whole(end), 1 if step is None else _whole(step)):
        yield number(np.array([place], np.int32), tl.int32)


def _whole(bound: Any) -> int:
    if isinstance(bound, tl.constexpr):
        return int(bound.value)
    if not isinstance(bound, tl.tensor):
        return int(bound)
    if is_traced(bound.handle.data):
        raise Untraceable("a loop of a kernel ends where traced numbers say")
    return int(np.asarray(bound.handle.data).reshape(-1)[0])
