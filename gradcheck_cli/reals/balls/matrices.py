"""Matrices of balls: each result encloses the exact factorization.

Cholesky, LU, QR and the solves are the textbook algorithms in ball arithmetic, so
their results are enclosures by themselves. Eigenvalues come from flint's verified
method. Nothing is trusted because a float said so; floats only choose signs and order.
Long because one domain answers for all factorizations, and they build on each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, arb_mat

from gradcheck_cli.reals.balls.complexes import as_complex
from gradcheck_cli.reals.rules.rule import elements

Array = np.ndarray[Any, Any]

_ZERO, _ONE = arb(0), arb(1)
_CONJ = np.frompyfunc(lambda b: b.conjugate() if isinstance(b, acb) else b, 1, 1)
_MID = np.frompyfunc(lambda b: complex(b.mid()) if isinstance(b, acb) else float(b.mid()), 1, 1)


class Algebra:
    """`native` runs the step itself on midpoints: its signs and its order are followed."""

    def __init__(self, native: Any) -> None:
        self._native = native

    # -- triangular --------------------------------------------------------------------

    def cholesky(self, a: Array) -> list[Array]:
        """Lower L with L·Lᴴ = a."""
        n = len(a)
        out = np.full((n, n), _ZERO, object)
        for j in range(n):
            left = out[j, :j]
            pivot = _real(a[j, j] - _dot(left, _CONJ(left))).sqrt()
            out[j, j] = pivot
            for i in range(j + 1, n):
                out[i, j] = (a[i, j] - _dot(out[i, :j], _CONJ(left))) / pivot
        return [out]

    def triangular_solve(
        self,
        a: Array,
        b: Array,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> list[Array]:
        """Substitution."""
        t = _CONJ(a) if conjugate_a else a
        if transpose_a:
            t, lower = t.T, not lower
        if not left_side:  # X·T = B is Tᵀ·Xᵀ = Bᵀ
            t, lower, b = t.T, not lower, b.T
        n = len(t)
        x = np.empty(b.shape, object)
        for i in range(n) if lower else reversed(range(n)):
            solved = slice(0, i) if lower else slice(i + 1, n)
            rest = b[i] - _dot(t[i, solved], x[solved])
            x[i] = rest if unit_diagonal else rest / t[i, i]
        return [x if left_side else x.T]

    def tridiagonal_solve(self, low: Array, mid: Array, high: Array, b: Array) -> list[Array]:
        n = len(mid)
        a = np.full((n, n), _ZERO, object)
        for i in range(n):
            a[i, i] = mid[i]
            if i:
                a[i, i - 1], a[i - 1, i] = low[i], high[i - 1]
        return [_solve(a, b)]

    def lu(self, a: Array) -> list[Array]:
        """Partial pivoting by the middles: any order of rows gives an exact factorization."""
        a = a.copy()
        rows, columns = a.shape
        count = min(rows, columns)
        pivots, order = np.zeros(count, np.int32), np.arange(rows, dtype=np.int32)
        for k in range(count):
            p = k + int(np.argmax(_sizes(a[k:, k])))
            pivots[k] = p
            a[[k, p]], order[[k, p]] = a[[p, k]], order[[p, k]]
            for i in range(k + 1, rows):
                a[i, k] = a[i, k] / a[k, k]
                a[i, k + 1 :] = a[i, k + 1 :] - a[i, k] * a[k, k + 1 :]
        return [a, pivots, order]

    # -- orthogonal --------------------------------------------------------------------

    def geqrf(self, a: Array) -> list[Array]:
        """R above the diagonal, the reflectors' vectors below it, and their factors."""
        a = a.copy()
        rows, columns = a.shape
        taus = np.full(min(rows, columns), _ZERO, object)
        for k in range(len(taus)):
            v, taus[k], a[k, k] = _reflector(a[k:, k])
            a[k + 1 :, k] = v[1:]
            a[k:, k + 1 :] = _reflected(v, _conj(taus[k]), a[k:, k + 1 :])
        return [a, taus]

    def geqp3(self, a: Array, order: Array) -> list[Array]:
        """QR by reflectors, with columns in the order that the library chooses."""
        order = np.asarray(self._native(a, order)[1])
        packed, taus = self.geqrf(a[:, order - 1])
        return [packed, order.astype(np.int32), taus]

    def ormqr(self, a: Array, taus: Array, c: Array, *, left: bool, transpose: bool) -> list[Array]:
        """Q·C, Qᴴ·C, C·Q or C·Qᴴ, one reflector after the other."""
        c = c if left else _CONJ(c).T  # C·Q is (Qᴴ·Cᴴ)ᴴ
        adjoint = transpose if left else not transpose
        numbers = range(len(taus)) if adjoint else reversed(range(len(taus)))
        for k in numbers:
            v = np.concatenate([[_ZERO] * k, [_ONE], a[k + 1 :, k]])
            c = _reflected(v, _conj(taus[k]) if adjoint else taus[k], c)
        return [c if left else _CONJ(c).T]

    def hessenberg(self, a: Array) -> list[Array]:
        """Similar to a, with zeros below the first subdiagonal; reflectors as in QR."""
        a = a.copy()
        n = len(a)
        taus = np.full(max(0, n - 1), _ZERO, object)
        for k in range(n - 1):
            v, taus[k], a[k + 1, k] = _reflector(a[k + 1 :, k])
            a[k + 2 :, k] = v[1:]
            right = _reflected(v, _conj(taus[k]), _CONJ(a[:, k + 1 :]).T)
            a[:, k + 1 :] = _CONJ(right).T
            a[k + 1 :, k + 1 :] = _reflected(v, _conj(taus[k]), a[k + 1 :, k + 1 :])
        return [a, taus]

    def tridiagonal(self, a: Array, *, lower: bool) -> list[Array]:
        """A symmetric matrix made tridiagonal: packed reflectors, both diagonals, factors."""
        n = len(a)
        packed, whole = a.copy(), _mirrored(a, lower=lower)
        turn = np.arange(n) if lower else np.arange(n)[::-1]  # upper: from the other end
        whole = whole[np.ix_(turn, turn)]
        taus = np.full(max(0, n - 1), _ZERO, object)
        off = np.full(max(0, n - 1), _ZERO, object)
        vectors = []
        for k in range(n - 1):
            v, taus[k], off[k] = _reflector(whole[k + 1 :, k])
            vectors.append(v)
            part = _reflected(v, _conj(taus[k]), whole[k + 1 :, k + 1 :])
            whole[k + 1 :, k + 1 :] = _CONJ(_reflected(v, _conj(taus[k]), _CONJ(part).T)).T
        diagonal = np.array([_real(whole[k, k]) for k in range(n)], object)
        for k, v in enumerate(vectors):
            column, rows = turn[k], turn[k + 1 :]
            packed[rows[1:], column] = v[1:]
            packed[rows[0], column] = off[k]
        for k in range(n):
            packed[turn[k], turn[k]] = diagonal[k]
        off = np.array([_real(b) for b in off], object)
        forward = slice(None) if lower else slice(None, None, -1)
        return [packed, diagonal[forward], off[forward], taus[forward]]

    def cholesky_update(self, r: Array, w: Array) -> list[Array]:
        """Upper R' with R'ᴴ·R' = Rᴴ·R + w·wᴴ."""
        upper = r.copy()
        for i in range(len(r)):
            upper[i, :i] = _ZERO
        (low,) = self.cholesky(_dot(upper.T, upper) + np.multiply.outer(w, w))
        return [low.T]

    def symmetric_product(self, a: Array, c: Array, *, alpha: float, beta: float) -> list[Array]:
        return [arb(float(alpha)) * _dot(a, a.T) + arb(float(beta)) * c]

    def householder_product(self, a: Array, taus: Array) -> list[Array]:
        """The first columns of H₁·H₂·…"""
        rows, columns = a.shape
        q = np.full((rows, columns), _ZERO, object)
        for i in range(columns):
            q[i, i] = _ONE
        for k in reversed(range(len(taus))):
            v = np.concatenate([[_ZERO] * k, [_ONE], a[k + 1 :, k]])
            weights = np.array([_dot(_CONJ(v), q[:, j]) for j in range(columns)])
            q = q - taus[k] * np.multiply.outer(v, weights)
        return [q]

    def qr(self, a: Array, *, full_matrices: bool, pivoting: bool) -> list[Array]:
        order = None
        if pivoting:
            order = np.asarray(self._native(a)[2])
            a = a[:, order]
        rows, columns = a.shape
        packed, taus = self.geqrf(a)
        wide = rows if full_matrices else min(rows, columns)
        padded = np.full((rows, wide), _ZERO, object)
        padded[:, : min(wide, columns)] = packed[:, :wide]
        (q,) = self.householder_product(padded, taus)
        r = packed[:wide].copy()
        for i in range(len(r)):
            r[i, :i] = _ZERO
        return [q, r] if order is None else [q, r, order.astype(np.int32)]

    # -- spectral ----------------------------------------------------------------------

    def eigh(self, a: Array, *, lower: bool) -> list[Array]:
        """Vectors and ascending values; a repeated value has no vectors of its own."""
        values, vectors = _symmetric(_mirrored(a, lower=lower))
        native = np.asarray(self._native(a)[0])
        return [_turned(vectors, native), values]

    def svd(self, a: Array, *, full_matrices: bool, compute_uv: bool) -> list[Array]:
        """Through the eigenvalues of aᴴa: precision doubles until the squares are apart."""
        rows, columns = a.shape
        flip = rows < columns
        tall = _CONJ(a).T if flip else a
        gram = np.array(
            [[_dot(_CONJ(tall[:, i]), tall[:, j]) for j in range(tall.shape[1])] for i in range(tall.shape[1])],
            object,
        ).reshape(tall.shape[1], tall.shape[1])  # fmt: skip
        squares, v = _symmetric(gram)
        squares, v = squares[::-1], v[:, ::-1]
        s = elements([_real(b).nonnegative_part().sqrt() for b in squares], squares.shape)
        if not compute_uv:
            return [s]
        native = self._native(a)
        native_u, native_v = np.asarray(native[1]), np.asarray(native[2]).conj().T
        narrow, wide = (native_u, native_v) if flip else (native_v, native_u)
        v = _turned(v, narrow[:, : v.shape[1]])
        u = np.array(
            [[_dot(tall[i], v[:, j]) / s[j] for j in range(len(s))] for i in range(len(tall))],
            object,
        )
        u = u.reshape(len(tall), len(s))
        if full_matrices:
            u = _completed(u, wide)
        left, right = (v, u) if flip else (u, v)
        return [s, left, _CONJ(right).T]

    def eig(
        self,
        a: Array,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
    ) -> list[Array]:
        """In the native order, each vector of length one, turned to the native one."""
        n = len(a)
        native = [np.asarray(part) for part in self._native(a)]
        matrix = acb_mat(n, n, _complex(a))
        try:
            values, left, right = matrix.eig(left=True, right=True)
        except ValueError:
            nan = np.full((n, n), acb("nan"), object)
            values = _repeated(matrix)
            left = right = acb_mat(n, n, nan.reshape(-1).tolist())
        mids = np.array([complex(v.mid()) for v in values])
        order: list[int] = []
        for target in native[0]:
            gaps = np.abs(mids - target)
            gaps[order] = np.inf
            order.append(int(np.argmin(gaps)))
        outs = [elements([values[k] for k in order], (n,))]
        rights = elements(right.entries(), (n, n))[:, order]
        lefts = _CONJ(elements(left.entries(), (n, n)).T)[:, order]
        wanted = [(compute_left_eigenvectors, lefts), (compute_right_eigenvectors, rights)]
        for (wants, vectors), target in zip([w for w in wanted if w[0]], native[1:], strict=True):
            assert wants
            outs.append(_turned(_unit(vectors), target))
        return outs

    def schur(
        self,
        a: Array,
        *,
        compute_schur_vectors: bool,
        sort_eig_vals: bool,
        select_callable: Any,
    ) -> list[Array]:
        """Q and T = Qᴴ·a·Q: each leading part of Q spans the same space as the native one does.

        The space of the first k vectors is the one of k eigenvectors, in the native order.
        """
        native_t, native_q = (np.asarray(part) for part in self._native(a))
        n = len(a)
        real = not any(isinstance(b, acb) for b in a.reshape(-1))
        sizes = _blocks(native_t, real=real)
        vectors = self._eigenvectors(a, native_t, sizes)
        q = _orthonormal(vectors)
        if real:
            q = np.asarray(np.frompyfunc(_real, 1, 1)(q), dtype=object).reshape(n, n)
        start = 0
        for size in sizes:
            here = slice(start, start + size)
            q[:, here] = _standard(a, q[:, here], native_q[:, here])
            start += size
        t = _dot(_CONJ(q).T, _dot(a, q))
        start = 0
        for size in sizes:
            t[start + size :, start : start + size] = _ZERO
            start += size
        return [t, q] if compute_schur_vectors else [t]

    def _eigenvectors(self, a: Array, native_t: Array, sizes: list[int]) -> Array:
        """One column for each value on the native diagonal; a pair gives real and imaginary part."""
        n = len(a)
        try:
            values, right = acb_mat(n, n, _complex(a)).eig(right=True)
        except ValueError:
            return np.full((n, n), arb("nan"), object)
        vectors = elements(right.entries(), (n, n))
        mids = np.array([complex(v.mid()) for v in values])
        taken: list[int] = []
        columns, start = [], 0
        for size in sizes:
            block = native_t[start : start + size, start : start + size]
            for target in np.linalg.eigvals(block)[:size]:
                gaps = np.abs(mids - target)
                gaps[taken] = np.inf
                taken.append(int(np.argmin(gaps)))
            vector = _upright(vectors[:, taken[-1:]])[:, 0]
            columns += [vector] if size == 1 else [_REAL(vector), _IMAGINARY(vector)]
            start += size
        return np.stack(columns, axis=1)


# -- pieces -------------------------------------------------------------------------------


def _conj(ball: Any) -> Any:
    return ball.conjugate() if isinstance(ball, acb) else ball


def _reflector(column: Array) -> tuple[Array, Any, Any]:
    """LAPACK's reflector that leaves only the first element: its vector, its factor, that element."""
    alpha, below = column[0], column[1:]
    v = np.concatenate([[_ONE], below])
    if all(b == 0 for b in below) and _is_real(alpha):
        return v, _ZERO, alpha  # nothing to reflect: LAPACK leaves the sign alone
    norm = _norm(column)
    beta = -norm if float(_real(alpha).mid()) >= 0 else norm
    v[1:] = below / (alpha - beta)
    return v, (beta - alpha) / beta, as_complex(beta) if isinstance(alpha, acb) else beta


def _reflected(v: Array, factor: Any, part: Array) -> Array:
    """(1 − factor·v·vᴴ)·part."""
    if not part.size:
        return part
    weights = np.array([_dot(_CONJ(v), part[:, j]) for j in range(part.shape[1])])
    return np.asarray(part - factor * np.multiply.outer(v, weights))


def _mirrored(a: Array, *, lower: bool) -> Array:
    """The symmetric (Hermitian) matrix of which one triangle is given."""
    whole = a.copy()
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            if lower:
                whole[i, j] = _conj(whole[j, i])
            else:
                whole[j, i] = _conj(whole[i, j])
    return whole


def _blocks(t: Array, *, real: bool) -> list[int]:
    """Sizes of the diagonal's blocks: real matrices have blocks of two for pairs."""
    sizes, k = [], 0
    while k < len(t):
        pair = real and k + 1 < len(t) and t[k + 1, k] != 0
        sizes.append(2 if pair else 1)
        k += sizes[-1]
    return sizes


def _orthonormal(vectors: Array) -> Array:
    """Gram and Schmidt: each leading part spans what it did."""
    columns: list[Array] = []
    for k in range(vectors.shape[1]):
        new = vectors[:, k]
        for old in columns:
            new = new - old * _dot(_CONJ(old), new)
        columns.append(new / _norm(new))
    return np.stack(columns, axis=1)


def _standard(a: Array, q: Array, native: Array) -> Array:
    """One vector in the native phase; two so that their block has equal diagonal elements."""
    if q.shape[1] == 1:
        return _turned(q, native)
    block = _dot(q.T, _dot(a, q))
    angle = arb.atan2(block[0, 0] - block[1, 1], block[0, 1] + block[1, 0]) / 2
    best, nearest = q, np.inf
    for quarter in range(4):
        turn = angle + arb.pi() * quarter / 2
        c, s = turn.cos(), turn.sin()
        for sign in (1, -1):
            turned = np.stack(
                [q[:, 0] * c - q[:, 1] * s, (q[:, 0] * s + q[:, 1] * c) * sign], axis=1
            )
            gap = float(np.abs(_MID(turned).astype(float) - native).max())
            if gap < nearest:
                best, nearest = turned, gap
    return best


_REAL = np.frompyfunc(lambda b: b.real, 1, 1)
_IMAGINARY = np.frompyfunc(lambda b: b.imag, 1, 1)


def _dot(a: Array, b: Array) -> Any:
    """Sum of products; nothing sums to zero."""
    if not len(a):
        return _ZERO if b.ndim == 1 else np.full(b.shape[1:], _ZERO, object)
    return np.dot(a, b)


def _complex(a: Array) -> list[acb]:
    return [as_complex(b) for b in a.reshape(-1).tolist()]


def _real(ball: arb | acb) -> arb:
    return ball.real if isinstance(ball, acb) else ball


def _is_real(ball: arb | acb) -> bool:
    return not isinstance(ball, acb) or ball.imag.is_zero()


def _sizes(column: Array) -> Array:
    sizes = np.array([abs(complex(m)) for m in _MID(column)])
    return np.where(np.isnan(sizes), -1.0, sizes)


def _norm(column: Array) -> arb:
    squares = [abs(b) ** 2 if isinstance(b, acb) else b * b for b in column]
    return sum(squares, _ZERO).nonnegative_part().sqrt()


def _solve(a: Array, b: Array) -> Array:
    flat = b.reshape(len(b), -1)
    n, count = flat.shape
    solution: Any
    if any(isinstance(x, acb) for x in (*a.reshape(-1), *flat.reshape(-1))):
        solution = acb_mat(n, n, _complex(a)).solve(acb_mat(n, count, _complex(flat)), nonstop=True)
    else:
        left = arb_mat(n, n, a.reshape(-1).tolist())
        solution = left.solve(arb_mat(n, count, flat.reshape(-1).tolist()), nonstop=True)
    return elements(solution.entries(), flat.shape).reshape(b.shape)


def _symmetric(a: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues and vectors of length one of a symmetric (Hermitian) matrix."""
    n = len(a)
    real = not any(isinstance(x, acb) for x in a.reshape(-1))
    matrix = acb_mat(n, n, _complex(a))
    nan = acb("nan")
    if not n or any(not b.is_finite() for b in matrix.entries()):
        return np.full(n, arb("nan"), object), np.full((n, n), arb("nan"), object)
    try:
        eigenvalues, right = matrix.eig(right=True)
        vectors = elements(right.entries(), (n, n))
    except ValueError:  # not isolated: repeated, or not yet told apart
        eigenvalues = _repeated(matrix)
        vectors = np.full((n, n), nan, object)
    order = sorted(range(n), key=lambda k: float(eigenvalues[k].real.mid()))
    values = elements([eigenvalues[k].real for k in order], (n,))
    vectors = _unit(vectors[:, order])
    if real:
        vectors = np.asarray(np.frompyfunc(_real, 1, 1)(_upright(vectors)), dtype=object)
    return values, vectors


def _repeated(matrix: acb_mat) -> list[acb]:
    """Eigenvalues of which some may be equal; unknown ones where not even clusters of them are told apart."""
    try:
        return list(matrix.eig(multiple=True))
    except ValueError:
        return [acb("nan")] * matrix.nrows()


def _upright(vectors: Array) -> Array:
    """Each column turned so that its largest element is real."""
    out = vectors.copy()
    for k in range(out.shape[1]):
        pivot = out[int(np.argmax(_sizes(out[:, k]))), k]
        out[:, k] = out[:, k] * (abs(pivot) / pivot)
    return out


def _unit(vectors: Array) -> Array:
    """Columns of length one."""
    out = vectors.copy()
    for k in range(out.shape[1]):
        out[:, k] = out[:, k] / _norm(out[:, k])
    return out


def _turned(vectors: Array, native: Array) -> Array:
    """Each column in the sign (or phase) that is nearest to the native one."""
    out = vectors.copy()
    for k in range(out.shape[1]):
        mids = _MID(out[:, k]).astype(complex)
        along = np.vdot(mids, native[:, k])
        if not np.isfinite(along) or along == 0:
            continue
        if any(isinstance(b, acb) for b in out[:, k]):
            target = elements([acb(complex(v)) for v in native[:, k]], (len(out),))
            overlap = _dot(_CONJ(out[:, k]), target)
            out[:, k] = out[:, k] * (overlap / abs(overlap))
        elif along.real < 0:
            out[:, k] = -out[:, k]
    return out


def _completed(u: Array, native: Array) -> Array:
    """The missing columns: the native ones made exactly orthogonal to the others."""
    columns = [u[:, k] for k in range(u.shape[1])]
    for k in range(len(columns), native.shape[1]):
        new = elements([arb(float(v.real)) for v in native[:, k]], (len(u),))
        for old in columns:
            new = new - old * _dot(_CONJ(old), new)
        columns.append(new / _norm(new))
    return np.stack(columns, axis=1)
