"""Every schedule of a contraction, forced, at any size: against float64 within the rounding bound
of its sums, on the vectors of several targets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella import ops
from lamella.compiler.contraction_plan import forced, writer
from lamella.compiler.contraction_shapes import Shape, Thin, choose
from lamella.compiler.contraction_split import split_contractions
from lamella.compiler.emit.target import Target
from lamella.compiler.fusion import fuse
from lamella.compiler.partition import materialised
from lamella.compiler.pipeline import compile_graph
from lamella.compiler.statements import build
from lamella.compiler.tiles import TileKernel
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from lamella.ir.dim import Dim
from lamella.ir.loop_interp import run_kernel
from lamella.ir.node import Node, topological
from tests.support.llvm_backend import run_kernel_llvm, target_named

EPSILON = {float64: 2.0**-53, float32: 2.0**-24, float16: 2.0**-11, bfloat16: 2.0**-8}
SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 47, 64, 70])
SHAPES = st.builds(
    Shape,
    rows=st.integers(1, 13), columns=st.sampled_from([4, 8, 16, 20, 32]),
    row_panels=st.integers(1, 3), column_panels=st.integers(1, 3),
    depth=st.sampled_from([4, 8, 20, 64]), swapped=st.booleans(),
)  # fmt: skip
THIN = st.builds(
    Thin,
    kind=st.sampled_from(["stream", "dot"]), columns=st.sampled_from([3, 8, 24, 48]),
    group=st.just(1), depth=st.sampled_from([16, 20, 64]), swapped=st.booleans(),
)  # fmt: skip


def placeholders(m: int, n: int, k: int, order: str, dtype: DType, out: str = "mn") -> list[Node]:
    """The product, and its factors."""
    names = {"m": m, "n": n, "k": k}
    of_a, of_b = ("km" if order[0] == "t" else "mk"), ("nk" if order[1] == "t" else "kn")
    a = ops.placeholder(tuple(names[c] for c in of_a), dtype)
    b = ops.placeholder(tuple(names[c] for c in of_b), dtype)
    labels = [["mnk".index(c) for c in part] for part in (of_a, of_b, out)]
    wide = int32 if dtype is int8 else None
    return [ops.contract(a, b, *labels, wide), a, b]


def run(nodes: list[Node], arrays: list[np.ndarray], target: Target | None) -> np.ndarray:
    """The product of arrays; with no target on the interpreter."""
    out, *inputs = nodes
    vectors = 16 if target is None else target.vector_bytes
    made = compile_graph([out], inputs, [], vectors, verify=True)
    result = np.full(out.shape, 77, out.dtype.numpy)
    slots = [*arrays, result, *(np.full(t.nbytes, 255, np.uint8) for t in made.temporaries)]
    for step in made.steps:
        kernel = made.kernels[step.kernel]
        given_ = {
            b.name: slots[s].reshape(-1).view(b.dtype.numpy)
            for b, s in zip(kernel.buffers, step.slots, strict=True)
        }
        if target is None:
            run_kernel(kernel, given_, {}, {})
        else:
            run_kernel_llvm(kernel, given_, {}, {}, target)
    return result


def factors(m: int, n: int, k: int, order: str, dtype: DType, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for shape, turned in (((m, k), order[0] == "t"), ((k, n), order[1] == "t")):
        values = rng.normal(size=shape) if dtype.kind == "f" else rng.integers(-100, 100, shape)
        array = values.astype(dtype.numpy)
        found.append(np.ascontiguousarray(array.T if turned else array))
    return found


def check(
    m: int, n: int, k: int, order: str, dtype: DType, target: Target | None, out: str = "mn",
    seed: int = 0,
) -> None:  # fmt: skip
    """|error| <= (k + 2) eps |a| |b|, with the eps of the sums, plus one rounding of the result."""
    nodes = placeholders(m, n, k, order, dtype, out)
    arrays = factors(m, n, k, order, dtype, seed)
    found = run(nodes, arrays, target)
    a = (arrays[0].T if order[0] == "t" else arrays[0]).astype(np.float64)
    b = (arrays[1].T if order[1] == "t" else arrays[1]).astype(np.float64)
    wanted, size = a @ b, np.abs(a) @ np.abs(b)
    found = (found.T if out == "nm" else found).astype(np.float64)
    if dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    sums = EPSILON[dtype if dtype.itemsize > 2 else float32]
    bound = (k + 2) * sums * size + EPSILON[dtype] * np.abs(wanted) * 1.01
    assert np.all(np.abs(found - wanted) <= bound), np.max(np.abs(found - wanted) - bound)


ORDERS = st.sampled_from(["nn", "nt", "tn", "tt"])


@settings(max_examples=40)
@given(SIZES, SIZES, SIZES, ORDERS, SHAPES, st.sampled_from(["mn", "nm"]), st.data())
def test_tiles(
    m: int, n: int, k: int, order: str, shape: Shape, out: str, data: st.DataObject
) -> None:
    rows = n if shape.swapped else m
    if rows >= shape.rows and data.draw(st.booleans()):
        shape = replace(shape, in_place=True)
    name = data.draw(st.sampled_from(["host", "host", "avx2", "x86-64-v2"]))
    dtype = data.draw(st.sampled_from([float32, float32, float64, float16, bfloat16, int8]))
    with forced(shape):
        check(m, n, k, order, dtype, target_named(name), out)


@settings(max_examples=40)
@given(SIZES, SIZES, SIZES, ORDERS, THIN, st.sampled_from(["mn", "nm"]), st.data())
def test_thin(
    m: int, n: int, k: int, order: str, shape: Thin, out: str, data: st.DataObject
) -> None:
    rows = n if shape.swapped else m
    group = data.draw(st.integers(1, max(1, min(6, 24 // max(rows, 1)))))
    name = data.draw(st.sampled_from(["host", "avx2", "x86-64-v2"]))
    dtype = data.draw(st.sampled_from([float32, float64, bfloat16, int8]))
    columns = -(-shape.columns // group) * group
    depth = shape.depth if shape.kind == "stream" else -(-shape.depth // 4) * 4
    with forced(Thin(shape.kind, columns, group, depth, shape.swapped)):
        check(m, n, k, order, dtype, target_named(name), out)


@pytest.mark.parametrize(
    "schedule",
    [
        Shape(3, 8, 2, 1, 8), Shape(3, 8, 2, 2, 8, in_place=True),
        Shape(5, 4, 1, 1, 64, swapped=True), Thin("stream", 8),
        Thin("dot", 8, 2, 8), Thin("dot", 8, 2, 8, swapped=True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["nn", "nt", "tn"])
def test_interpreter(schedule: Shape | Thin, order: str) -> None:
    with forced(schedule):
        check(7, 11, 19, order, float32, None)


@pytest.mark.parametrize(
    ("m", "n", "k", "order"),
    [
        (1021, 131, 67, "nn"), (61, 1031, 300, "nt"), (130, 70, 2100, "tn"), (200, 200, 200, "tt"),
        (3, 1200, 211, "nn"), (5, 1200, 211, "nt"), (1200, 6, 211, "nn"), (1200, 7, 211, "tn"),
        (1, 1300, 400, "nn"), (1300, 1, 400, "tn"), (16, 16, 9001, "nn"), (2, 70001, 3, "nn"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [float32, float64])
def test_chosen_schedules(m: int, n: int, k: int, order: str, dtype: DType) -> None:
    check(m, n, k, order, dtype, target_named("host"))


def kind(m: int, n: int, k: int, order: str, out: str = "mn") -> object:
    """The schedule that a product gets with vectors of 64 bytes."""
    nodes = placeholders(m, n, k, order, float32, out)
    order_ = topological(nodes[:1])
    program = build(order_, nodes[:1], materialised(order_, nodes[:1]))
    (group,) = fuse(program.statements)
    made = writer(group, set(nodes[:1]), 64)
    return made.shape


def test_what_is_chosen() -> None:
    assert kind(8, 4096, 4096, "nn") == Thin("stream", 256)
    assert isinstance(kind(8, 4096, 4096, "nt"), Thin)
    assert kind(4096, 8, 4096, "tn") == Thin("stream", 256, swapped=True)
    large, turned = kind(1024, 1024, 1024, "nn"), kind(1024, 1024, 1024, "nn", "nm")
    assert isinstance(large, Shape) and not large.swapped
    assert isinstance(turned, Shape) and turned.swapped
    assert kind(16, 64, 64, "nn") == choose(64, float32, (1, 16, 64, 64), in_place=True)
    assert large.in_place and (large.rows, large.columns) == (8, 32)
    assert kind(1021, 512, 512, "nn") == choose(64, float32, (1, 1021, 512, 512), in_place=True)
    assert kind(1024, 512, 9000, "tn").depth < kind(1024, 512, 9000, "nn").depth  # type: ignore[attr-defined]


def test_nan_and_infinity_stay_in_their_rows() -> None:
    a, b = factors(30, 40, 50, "nn", float32, 1)
    a[3, 4], a[7, 8] = np.nan, np.inf
    found = run(placeholders(30, 40, 50, "nn", float32), [a, b], target_named("host"))
    wanted = a.astype(np.float64) @ b
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


@pytest.mark.parametrize("m", [8, 13, 21, 24])
def test_a_result_written_over_what_its_tail_reads(m: int) -> None:
    rng = np.random.default_rng(m)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, 40), (40, 64)))
    nodes = [ops.placeholder(x.shape, float32) for x in (a, b)]
    first = ops.matmul(*nodes)
    out = ops.add(ops.matmul(ops.exp(nodes[0]), nodes[1]), ops.multiply(first, first))
    with forced(Shape(8, 32, 3, 2, 40, in_place=True)):
        made = compile_graph([out], nodes, [], 64)
        written_over = any(b.alias for k in made.kernels for b in k.buffers)
        assert written_over == (m % 8 == 0)  # two stores, of whole and of other tiles, are not
        found = run([out, *nodes], [a, b], target_named("host"))
    wide = a.astype(np.float64)
    np.testing.assert_allclose(found, np.exp(wide) @ b + (wide @ b) ** 2, rtol=1e-4, atol=1e-3)


def test_a_tile_kernel_wants_a_contraction() -> None:
    x = ops.placeholder((3, 4), float32)
    out = ops.exp(x)
    order = topological([out])
    (group,) = fuse(build(order, [out], materialised(order, [out])).statements)
    with pytest.raises(ValueError, match="contraction"):
        TileKernel(group, {out}, 64, Shape(2, 4, 1, 1, 4))


# -- few results, many terms -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("m", "n", "k", "order"),
    [
        (16, 16, 16384, "nn"), (1, 1, 700_001, "nt"), (3, 40, 8209, "tn"), (5, 1, 131_072, "nn"),
        (12, 64, 4999, "nt"), (1, 200, 65537, "nn"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [float32, bfloat16, int8])
def test_split_sums(m: int, n: int, k: int, order: str, dtype: DType) -> None:
    check(m, n, k, order, dtype, target_named("host"))


def test_what_is_split() -> None:
    def parts(m: int, n: int, k: int) -> int:
        (out,) = split_contractions(placeholders(m, n, k, "nn", float32)[:1])
        while out.op.name in ("cast", "add"):
            out = out.inputs[0]
        return out.inputs[0].shape[0] if out.op.name == "reduce_sum" else 1

    assert parts(16, 16, 65536) == 8
    assert parts(1, 1, 1 << 20) == 16
    assert parts(12, 64, 4999) == 9  # nine and a half pieces
    assert parts(16, 16, 4095) == parts(256, 256, 8192) == parts(64, 0, 8192) == 1


def test_several_batches_and_summed_axes_are_split_along_the_longest() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 4, 9001)), rng.normal(size=(3, 9001, 2, 5))
    nodes = [ops.placeholder(x.shape, float32) for x in (a, b)]
    out = ops.contract(*nodes, (0, 1, 2, 3), (1, 3, 0, 4), (4, 0, 2))
    assert split_contractions([out])[0] is not out
    found = run([out, *nodes], [x.astype(np.float32) for x in (a, b)], target_named("host"))
    np.testing.assert_allclose(found, np.einsum("xyzk,ykxn->nxz", a, b), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("shape", [(300, 200, 400), (8, 700, 300), (16, 16, 9000)])
def test_the_same_bits_on_any_number_of_threads(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = (lm.asarray(x) for x in factors(m, n, k, "nn", float32, 3))
    found = []
    for threads in (1, 2, 3):
        with config(threads=threads):
            found.append((a @ b).numpy().tobytes())
    assert len(set(found)) == 1


@settings(max_examples=12)
@given(SIZES, SIZES, SIZES, st.sampled_from(["m", "n", "k", "mnk"]), ORDERS)
def test_sizes_known_only_at_run_time(m: int, n: int, k: int, opened: str, order: str) -> None:
    sizes = {"m": m, "n": n, "k": k}
    sizes = {c: size if c in opened else size + 40 for c, size in sizes.items()}
    dims = {c: Dim(c) if c in opened else size for c, size in sizes.items()}
    nodes = placeholders(dims["m"], dims["n"], dims["k"], order, float32)  # type: ignore[arg-type]
    arrays = factors(*sizes.values(), order, float32, 5)
    target = target_named("host")
    made = compile_graph(nodes[:1], nodes[1:], [], target.vector_bytes, verify=True)
    result = np.full((sizes["m"], sizes["n"]), 77, np.float32)
    (step,) = made.steps
    kernel = made.kernels[step.kernel]
    known = {name: sizes[name] for name in kernel.sizes}
    slots = dict(zip(step.slots, kernel.buffers, strict=False))
    given_ = {b.name: [*arrays, result][s].reshape(-1) for s, b in slots.items()}
    run_kernel_llvm(kernel, given_, {}, known, target)
    a = arrays[0].T if order[0] == "t" else arrays[0]
    b = arrays[1].T if order[1] == "t" else arrays[1]
    np.testing.assert_allclose(result, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
