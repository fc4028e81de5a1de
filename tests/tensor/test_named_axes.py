"""Named axes: how names travel through operations, layers, transformations and jit, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.errors import DTypeError, OptionError, ShapeError

F = nn.functional


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    with config(backend="llvm"):
        yield


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def make(*shape: int, names: str = "abcd") -> lm.Tensor:
    return lm.asarray(draw(*shape)).named(*names[: len(shape)])


def test_elementwise_reductions_and_values() -> None:
    x = lm.asarray(draw(2, 3, 4)).named("batch", "time", "feature")
    assert x.names == ("batch", "time", "feature")
    assert (lm.exp(x) * 2 + x).names == x.names
    np.testing.assert_allclose(x.sum("time").numpy(), draw(2, 3, 4).sum(1), rtol=1e-5)
    assert x.sum("time").names == ("batch", "feature")
    assert lm.mean(x, axis=("time", "feature")).names == ("batch",)
    assert x.max(dim="time").names == ("batch", "feature")
    assert lm.mean(x, axis="time", keepdims=True).names == ("batch", None, "feature")
    assert F.softmax(x, dim=-1).names == x.names
    assert lm.argmax(x, axis="feature").names == ("batch", "time")
    assert lm.cumsum(x, axis="time").names == x.names
    y = x * 2
    lm.eval(y)
    assert y.names == x.names and (y + 1).names == x.names


def test_movement_and_indexing() -> None:
    x = make(2, 3, 4)
    assert lm.permute_dims(x, (2, 0, 1)).names == ("c", "a", "b")
    assert x[0].names == ("b", "c") and x[:, 1].names == ("a", "c")
    assert x[:, None].names == ("a", None, "b", "c")
    assert x[..., ::2].names == x.names
    assert lm.reshape(x, (2, 12)).names == ("a", None)
    assert lm.reshape(x, (6, 4)).names == (None, "c")
    assert lm.concat([x, x], axis=1).names == x.names
    assert lm.flip(x).names == x.names
    np.testing.assert_array_equal(x[{"b": 1}].numpy(), draw(2, 3, 4)[:, 1])
    assert x[{"b": 1}].names == ("a", "c")
    np.testing.assert_array_equal(x[{"c": slice(0, 2), "a": 0}].numpy(), draw(2, 3, 4)[0, :, :2])
    index = lm.asarray([0, 1]).named("chosen")
    assert lm.take(x, index, axis=1).shape == (2, 2, 4)


def test_broadcasting_by_name() -> None:
    x = lm.asarray(draw(2, 3)).named("batch", "feature")
    scale = lm.asarray(draw(2)).named("batch")
    np.testing.assert_allclose((x * scale).numpy(), draw(2, 3) * draw(2)[:, None], rtol=1e-6)
    np.testing.assert_allclose((scale * x).numpy(), draw(2, 3) * draw(2)[:, None], rtol=1e-6)
    turned = lm.permute_dims(x, (1, 0))
    np.testing.assert_allclose((x + turned).numpy(), 2 * draw(2, 3), rtol=1e-6)
    assert (x + turned).names == ("batch", "feature")
    assert (x + draw(3)).names == x.names and (x + 1.0).names == x.names


def test_mismatches_show_both() -> None:
    x = lm.asarray(draw(3, 3)).named("batch", "feature")
    y = lm.asarray(draw(3, 3)).named("batch", "time")
    with pytest.raises(ShapeError, match=r"\(batch, feature\) and \(batch, time\)"):
        x + y
    with pytest.raises(ShapeError, match="'feature' would be multiplied with 'batch'"):
        x @ y
    with pytest.raises(ShapeError, match="no axis is called 'time'"):
        x.sum("time")
    with pytest.raises(ShapeError, match="no axis is called 'time'"):
        x[{"time": 0}]
    with pytest.raises(ShapeError, match="2 axes"):
        lm.ones((2, 3)).named("a")
    with pytest.raises(OptionError, match="repeat"):
        lm.ones((2, 3)).named("a", "a")
    with pytest.raises(OptionError, match="no name"):
        lm.ones((2,)).named("a b")
    with pytest.raises(ShapeError, match="called 'z'"):
        x.rename(z="y")


def test_contraction() -> None:
    q = lm.asarray(draw(2, 5, 8)).named("head", "query", "feature")
    k = lm.asarray(draw(7, 2, 8)).named("key", "head", "feature")
    scores = lm.contract(q, k, over="feature")
    assert scores.names == ("head", "query", "key")
    wanted = np.einsum("hqf,khf->hqk", draw(2, 5, 8), draw(7, 2, 8))
    np.testing.assert_allclose(scores.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert (lm.ones((4, 8)).named("out", "feature") @ draw(8, 3)).names == ("out", None)
    with pytest.raises(ShapeError, match="contracted over"):
        lm.contract(q, k, over="query")
    gram = q[0] @ q[0].T
    assert gram.names == ("query", None)


def test_rename_and_align() -> None:
    x = lm.asarray(draw(2, 3)).named("a", "b")
    assert x.rename(a="rows").names == ("rows", "b")
    assert x.rename(a=None).names == (None, "b")
    aligned = x.align_to("b", "c", "a")
    assert aligned.names == ("b", "c", "a")
    np.testing.assert_array_equal(aligned.numpy(), draw(2, 3).T[:, None, :])
    with pytest.raises(ShapeError, match="align_to"):
        x.align_to("b")


def test_layers_keep_names() -> None:
    x = lm.asarray(draw(2, 5, 8)).named("batch", "time", "feature")
    assert nn.LayerNorm(8)(x).names == x.names
    assert nn.Linear(8, 4)(x).names == ("batch", "time", None)
    assert nn.Dropout(0.5)(x).names == x.names
    assert F.gelu(x).names == x.names
    image = lm.asarray(draw(2, 3, 6, 6)).named("batch", "channel", "row", "column")
    assert nn.Conv2d(3, 4, 3)(image).names == ("batch", None, "row", "column")
    assert nn.BatchNorm2d(3)(image).names == image.names
    tokens = lm.asarray([[1, 2, 3]]).named("batch", "time")
    assert nn.Embedding(5, 4)(tokens).names == ("batch", "time", None)


def test_transformations_keep_names() -> None:
    x = lm.asarray(draw(2, 3)).named("batch", "feature")
    gradient = lm.grad(lambda v: lm.sum(v * v * v))(x)
    assert gradient.names == x.names
    np.testing.assert_allclose(gradient.numpy(), 3 * draw(2, 3) ** 2, rtol=1e-5)

    seen = []

    def one(row: lm.Tensor) -> lm.Tensor:
        seen.append(row.names)
        return row.sum("feature")

    assert lm.vmap(one)(x).names == ("batch",)
    assert seen == [("feature",)]
    leaf = lm.tensor(draw(2, 3), requires_grad=True)
    lm.sum(leaf.named("a", "b").sum("b") ** 2).backward()
    np.testing.assert_allclose(
        leaf.grad.numpy(), np.repeat(2 * draw(2, 3).sum(1)[:, None], 3, 1), rtol=1e-5
    )


def test_jit_keeps_names_and_checks_them_when_it_traces() -> None:
    @lm.jit
    def total(x: lm.Tensor) -> lm.Tensor:
        return x.sum("time") * 2

    x = lm.asarray(draw(2, 3)).named("batch", "time")
    for _ in range(2):
        assert total(x).names == ("batch",)
    np.testing.assert_allclose(total(x).numpy(), 2 * draw(2, 3).sum(1), rtol=1e-5)
    np.testing.assert_allclose(
        total(x.rename(batch="time", time="batch")).numpy(), 2 * draw(2, 3).sum(0), rtol=1e-5
    )
    with pytest.raises(DTypeError, match="'time' is not an integer"):
        total(lm.ones((2, 3)))
