"""Every schedule of a contraction, forced, at any size: against float64 within the rounding bound
of its sums, on the vectors of several targets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella import ops
from lamella.compiler.contraction_plan import forced, writer
from lamella.compiler.contraction_shapes import Lies, Shape, Thin, choose
from lamella.compiler.contraction_split import split_contractions
from lamella.compiler.emit.target import Target
from lamella.compiler.fusion import fuse
from lamella.compiler.partition import materialised
from lamella.compiler.pipeline import compile_graph
from lamella.compiler.statements import build
from lamella.compiler.tiles import TileKernel
from lamella.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from lamella.ir.dim import Dim
from lamella.ir.index import add, coefficient
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import For, Load, Prefetch, Store, Var
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import expressions, statements
from tests.support.llvm_backend import NAMES, run_kernel_llvm, target_named
from tests.support.units import AVX2, AVX512, NEON, SSE

pytestmark = pytest.mark.makes_no_program

EPSILON = {float64: 2.0**-53, float32: 2.0**-24, float16: 2.0**-11, bfloat16: 2.0**-8}
SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 47, 64, 70])
SHAPES = st.builds(
    Shape,
    rows=st.integers(1, 13), columns=st.sampled_from([4, 8, 16, 20, 32]),
    row_panels=st.integers(1, 3), column_panels=st.integers(1, 3),
    depth=st.sampled_from([4, 8, 20, 64]), swapped=st.booleans(), together=st.integers(1, 3),
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


def run(
    nodes: list[Node], arrays: list[np.ndarray], target: Target | None,
    unit: VectorUnit | None = None,
) -> np.ndarray:  # fmt: skip
    """The product of arrays; with no target on the interpreter."""
    out, *inputs = nodes
    unit = unit or (SSE if target is None else target.unit)
    made = compile_graph([out], inputs, [], unit, verify=True)
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
        values = rng.normal(size=shape) if dtype.kind == "f" else rng.integers(-128, 128, shape)
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
    name = data.draw(st.sampled_from(["host", "host", *NAMES]))
    dtype = data.draw(st.sampled_from([float32, float32, float64, float16, bfloat16, int8, int8]))
    with forced(shape):
        check(m, n, k, order, dtype, target_named(name), out)


@settings(max_examples=40)
@given(SIZES, SIZES, SIZES, ORDERS, THIN, st.sampled_from(["mn", "nm"]), st.data())
def test_thin(
    m: int, n: int, k: int, order: str, shape: Thin, out: str, data: st.DataObject
) -> None:
    rows = n if shape.swapped else m
    group = data.draw(st.integers(1, max(1, min(6, 24 // max(rows, 1)))))
    name = data.draw(st.sampled_from(NAMES))
    dtype = data.draw(st.sampled_from([float32, float64, bfloat16, int8]))
    columns = -(-shape.columns // group) * group
    depth = shape.depth if shape.kind == "stream" else -(-shape.depth // 4) * 4
    with forced(Thin(shape.kind, columns, group, depth, shape.swapped)):
        check(m, n, k, order, dtype, target_named(name), out)


@pytest.mark.parametrize(
    "schedule",
    [
        Shape(3, 8, 2, 1, 8), Shape(3, 8, 2, 2, 8, in_place=True),
        Shape(5, 4, 1, 1, 64, swapped=True), Shape(3, 4, 2, 1, 8, together=2), Thin("stream", 8, 3),
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
    return schedule(placeholders(m, n, k, order, float32, out)[0])


def schedule(out: Node) -> object:
    """The schedule of a node that is one group."""
    order = topological([out])
    (group,) = fuse(build(order, [out], materialised(order, [out])).statements)
    return writer(group, {out}, AVX512).shape


def test_what_is_chosen() -> None:
    assert kind(8, 4096, 4096, "nn") == Thin("stream", 512, 6)
    assert isinstance(kind(8, 4096, 4096, "nt"), Thin)
    assert kind(4096, 8, 4096, "tn") == Thin("stream", 512, 6, swapped=True)
    large, turned = kind(1024, 1024, 1024, "nn"), kind(1024, 1024, 1024, "nn", "nm")
    assert isinstance(large, Shape) and not large.swapped
    assert isinstance(turned, Shape) and turned.swapped
    plain = Lies(plain=True, deep=True)
    assert kind(16, 64, 64, "nn") == choose(AVX512, float32, (1, 16, 64, 64), left=plain)
    assert large.in_place and (large.rows, large.columns) == (8, 32)
    assert kind(1021, 512, 512, "nn") == choose(AVX512, float32, (1, 1021, 512, 512), left=plain)
    assert kind(16, 16, 4096, "nn").rows == 8  # their lines meet in one set  # type: ignore[attr-defined]
    assert kind(16, 16, 4000, "nn").rows == 16  # type: ignore[attr-defined]
    assert kind(1024, 512, 9000, "tn").depth < kind(1024, 512, 9000, "nn").depth  # type: ignore[attr-defined]


def test_rows_whose_steps_are_pages_apart_are_packed_in_whole_lines() -> None:
    found = kind(2048, 512, 1000, "tn")
    assert isinstance(found, Shape) and not found.in_place
    assert found.rows * found.together % 16 == found.row_panels % found.together == 0
    assert found.together > 1
    assert kind(2000, 512, 1000, "tn").together == 1  # type: ignore[attr-defined]
    assert kind(2048, 512, 1000, "nn").together == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("m", [96, 97, 130])
@pytest.mark.parametrize("k", [64, 45])
def test_panels_packed_together_have_the_bits_of_those_packed_one_by_one(m: int, k: int) -> None:
    found = []
    for few in (1, 2, 4):
        with forced(Shape(12, 32, 6, 2, 20, together=few)):
            nodes = placeholders(m, 70, k, "tn", float32)
            found.append(run(nodes, factors(m, 70, k, "tn", float32, 3), target_named("host")))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def with_residual(m: int, n: int, k: int, order: str = "nt") -> Node:
    """A product with what has its shape added, over which it may be written."""
    product = placeholders(m, n, k, order, float32)[0]
    return ops.add(product, ops.placeholder((m, n), float32))


def test_rows_that_may_be_computed_once_only_are_read_in_place_where_panels_divide_them() -> None:
    assert kind(196, 512, 2048, "nt").rows == 7  # type: ignore[attr-defined]
    found = schedule(with_residual(196, 512, 2048))
    assert isinstance(found, Shape) and found.in_place and found.rows == 7
    packed = schedule(with_residual(197, 512, 2048))
    assert isinstance(packed, Shape) and not packed.in_place
    assert kind(197, 512, 2048, "nt").in_place  # type: ignore[attr-defined]


@pytest.mark.parametrize("k", [64, 3000])
def test_a_residual_is_asked_for_before_its_tile_is_done(k: int) -> None:
    out = with_residual(96, 64, k)
    made = compile_graph([out], [*out.inputs[0].inputs, out.inputs[1]], [], AVX512)
    (kernel,) = made.kernels
    asked = [x for x in statements(kernel.body.body) if isinstance(x, Prefetch)]
    (residual,) = (x for x in asked if x.buffer not in ("right", "left"))
    row, line = Var("hi", 12), Var("hj", 2)
    assert coefficient(residual.index, row) == 64 and coefficient(residual.index, line) == 16


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize(("order", "group"), [("nn", 6), ("nt", 6)])
def test_each_line_of_a_large_factor_is_asked_for_once(
    order: str, group: int, dtype: DType
) -> None:
    """By few rows, a group of rows of memory ahead of where it is read, for a second-level cache;
    a small factor is not, because it stays in the caches.
    """

    def asked(n: int, k: int) -> set[Prefetch]:
        out, *inputs = placeholders(1, n, k, order, dtype)
        made = compile_graph([out], inputs, [], AVX512)
        found = [x for x in statements(made.kernels[0].body.body) if isinstance(x, Prefetch)]
        assert len(found) == len(set(found))
        return set(found)

    assert not asked(640, 800)
    found = asked(1280, 1600)
    lines = 64 * dtype.itemsize // 64 if order == "nn" else 1
    assert len(found) == group * lines
    assert {hint.level for hint in found} == {2}


@pytest.mark.parametrize("order", ["nn", "nt"])
@pytest.mark.parametrize("rows", [1, 3])
def test_hints_depend_on_the_processor_and_change_no_bit(order: str, rows: int) -> None:
    target = target_named("host")
    found, asked = [], []
    for cpu in ("znver3", "znver4"):
        unit = replace(target, cpu=cpu).unit
        nodes = placeholders(rows, 1024, 1040, order, float32)
        made = compile_graph(nodes[:1], nodes[1:], [], unit)
        kernels = [x for k in made.kernels for x in statements(k.body.body)]
        asked.append(any(isinstance(x, Prefetch) for x in kernels))
        found.append(run(nodes, factors(rows, 1024, 1040, order, float32, 2), target, unit))
    assert asked == [rows > 1, True]
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("n", [1024, 1201])
def test_columns_side_by_side_read_on_from_row_to_row(n: int) -> None:
    out, *inputs = placeholders(1, n, 320, "nt", float32)
    (kernel,) = compile_graph([out], inputs, [], AVX2).kernels
    (groups,) = (
        x for x in statements(kernel.body.body) if isinstance(x, For) and x.var.name == "mg"
    )
    values = [x.value for x in statements(groups.body) if isinstance(x, Store)]
    large = [e for e in expressions(values) if isinstance(e, Load) and e.buffer == "b1"]
    steps = {coefficient(add(e.index, 0), groups.var) for e in large}
    assert steps <= {320, None} and large


@pytest.mark.parametrize("functions", [False, True])
def test_a_tail_with_functions_leaves_the_registers_to_them(functions: bool) -> None:
    product, *inputs = placeholders(96, 96, 64, "nn", float32)
    out = ops.erf(product) if functions else ops.multiply(product, product)
    (kernel,) = compile_graph([out], inputs, [], AVX2).kernels
    loops = {x.var.name for x in statements(kernel.body.body) if isinstance(x, For)}
    assert ("wi" in loops, "ti" in loops) == (not functions, functions)


@pytest.mark.parametrize(("n", "k"), [(768, 768), (256, 4096), (3072, 768)])
def test_a_streamed_product_is_shared_and_reads_on_from_row_to_row(n: int, k: int) -> None:
    out, *inputs = placeholders(1, n, k, "nn", float32)
    product, *_ = compile_graph([out], inputs, [], AVX2).kernels
    assert isinstance(product.body.var.extent, int) and product.body.var.extent >= 4
    (turns,) = (
        x for x in statements(product.body.body) if isinstance(x, For) and x.var.name == "mk"
    )
    values = [x.value for x in statements(turns.body) if isinstance(x, Store)]
    large = [e for e in expressions(values) if isinstance(e, Load) and e.buffer == "b1"]
    assert {coefficient(e.index, turns.var) for e in large} == {n}


@pytest.mark.parametrize(("n", "vectors"), [(100, 1), (48, 1), (120, 0), (96, 0), (1000, 1)])
def test_the_last_panel_multiplies_the_vectors_that_hold_columns(n: int, vectors: int) -> None:
    out, *factors_ = placeholders(96, n, 64, "nn", float32)
    with forced(Shape(12, 32, 8, 2, 64)):
        made = compile_graph([out], factors_, [], AVX512)
    (kernel,) = made.kernels
    tiles = [x for x in statements(kernel.body.body) if isinstance(x, For) and x.kind == "lanes"]
    widths = {x.var.extent for x in tiles if x.var.name.startswith("d1")}
    assert widths == ({32, 16 * vectors} if vectors else {32})


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
        made = compile_graph([out], nodes, [], AVX512)
        written_over = any(b.alias for k in made.kernels for b in k.buffers)
        assert written_over  # also by the two stores of whole and of other tiles
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
        (12, 64, 4999, "nt"), (1, 200, 65537, "nn"), (1, 2311, 1031, "nn"), (2003, 4, 1000, "tn"),
        (3, 2311, 1031, "nt"), (4, 3000, 720, "tn"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [float32, bfloat16, int8])
def test_split_sums(m: int, n: int, k: int, order: str, dtype: DType) -> None:
    check(m, n, k, order, dtype, target_named("host"))


def test_what_is_split() -> None:
    def parts(m: int, n: int, k: int, order: str = "nn") -> int:
        (out,) = split_contractions(placeholders(m, n, k, order, float32)[:1])
        while out.op.name in ("cast", "add"):
            out = out.inputs[0]
        return out.inputs[0].shape[0] if out.op.name == "reduce_sum" else 1

    assert parts(16, 16, 65536) == 8
    assert parts(1, 1, 1 << 20) == 16
    assert parts(12, 64, 4999) == 9  # nine and a half pieces
    assert parts(16, 16, 4095) == parts(256, 256, 8192) == parts(64, 0, 8192) == 1
    assert parts(1, 4096, 4096) == parts(4096, 1, 4096, "tn") == 16  # streamed, in whole rows
    assert parts(8, 4096, 4096) == 2
    assert parts(1, 4096, 4096, "nt") == parts(1, 60_000, 4096) == parts(1, 4096, 255) == 1


def test_several_batches_and_summed_axes_are_split_along_the_longest() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 4, 9001)), rng.normal(size=(3, 9001, 2, 5))
    nodes = [ops.placeholder(x.shape, float32) for x in (a, b)]
    out = ops.contract(*nodes, (0, 1, 2, 3), (1, 3, 0, 4), (4, 0, 2))
    assert split_contractions([out])[0] is not out
    found = run([out, *nodes], [x.astype(np.float32) for x in (a, b)], target_named("host"))
    np.testing.assert_allclose(found, np.einsum("xyzk,ykxn->nxz", a, b), rtol=1e-4, atol=2e-3)


@settings(max_examples=12)
@given(SIZES, SIZES, SIZES, st.sampled_from(["m", "n", "k", "mnk"]), ORDERS)
def test_sizes_known_only_at_run_time(m: int, n: int, k: int, opened: str, order: str) -> None:
    sizes = {"m": m, "n": n, "k": k}
    sizes = {c: size if c in opened else size + 40 for c, size in sizes.items()}
    dims = {c: Dim(c) if c in opened else size for c, size in sizes.items()}
    nodes = placeholders(dims["m"], dims["n"], dims["k"], order, float32)  # type: ignore[arg-type]
    arrays = factors(*sizes.values(), order, float32, 5)
    target = target_named("host")
    made = compile_graph(nodes[:1], nodes[1:], [], target.unit, verify=True)
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


@pytest.mark.parametrize(
    ("unit", "tile"), [(SSE, (6, 8)), (NEON, (12, 8)), (AVX2, (6, 16)), (AVX512, (12, 32))]
)
def test_the_register_tile_fits_the_registers(unit: VectorUnit, tile: tuple[int, int]) -> None:
    shape = choose(unit, float32, (1, 4800, 4800, 512))
    assert (shape.rows, shape.columns) == tile
    assert shape.rows * shape.columns // unit.lanes(float32) < unit.registers


@pytest.mark.parametrize("name", [*NAMES, "avx512"])
@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 33, 4096), (5, 70, 1021), (64, 64, 64), (37, 41, 66), (20, 30, 2051)]
)
def test_extreme_bytes(name: str, order: str, m: int, n: int, k: int) -> None:
    """-128 and 127, where sixteen bits would not hold the sum of two products."""
    rng = np.random.default_rng(k)
    a = rng.choice(np.array([-128, -127, 127, 0], np.int8), (m, k), p=[0.6, 0.1, 0.2, 0.1])
    b = rng.choice(np.array([-128, 127], np.int8), (k, n))
    turned = [order[0] == "t", order[1] == "t"]
    arrays = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True)]
    found = run(placeholders(m, n, k, order, int8), arrays, target_named(name))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(
    ("batch", "heads", "length", "width", "n"),
    [
        (2, 3, 16, 12, 20), (2, 2, 8, 20, 17), (1, 5, 17, 12, 10), (2, 2, 13, 7, 11),
        (3, 2, 40, 64, 33), (2, 1, 256, 96, 33), (2, 3, 64, 128, 70),
    ],
)  # fmt: skip
def test_factors_whose_places_are_linear_in_runs(
    batch: int, heads: int, length: int, width: int, n: int
) -> None:
    """Heads side by side, as rows and as steps of k: their places have quotients of both."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(batch, heads, length, width)).astype(np.float32)
    joined = x.transpose(0, 2, 1, 3).reshape(batch * length, heads * width)
    w = rng.normal(size=(heads * width, n)).astype(np.float32)
    d = rng.normal(size=(batch * length, n)).astype(np.float32)
    target = target_named("host") if joined.size > 2000 else None  # the interpreter is slow
    for array, turned, wanted in (
        (w, (0, 1), joined.astype(np.float64) @ w), (d, (1, 0), joined.T.astype(np.float64) @ d),
    ):  # fmt: skip
        nodes = [ops.placeholder(a.shape, float32) for a in (x, array)]
        side = ops.reshape(ops.permute(nodes[0], (0, 2, 1, 3)), joined.shape)
        out = ops.matmul(ops.permute(side, turned), nodes[1])
        found = run([out, *nodes], [x, array], target)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_tiles_and_blocks_keep_to_runs() -> None:
    x = ops.placeholder((8, 6, 256, 64), float32)
    w = ops.placeholder((384, 384), float32)
    side = ops.reshape(ops.permute(x, (0, 2, 1, 3)), (2048, 384))
    shape = schedule(ops.matmul(side, w))
    assert isinstance(shape, Shape)
    assert 256 % shape.rows == 0
    assert shape.depth % 64 == 0
