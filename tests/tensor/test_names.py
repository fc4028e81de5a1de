"""Public names: what the package's table says is what its modules offer, and every function is
documented.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import lamella as lm

FAMILIES = [
    name
    for name in lm._FROM
    if name.startswith("lamella.tensor.")
    and not name.endswith(("tensor", "random", "linalg", "gradient", "naming", "solving"))
]


@pytest.mark.parametrize("module", FAMILIES)
def test_the_table_lists_what_modules_export(module: str) -> None:
    exported = set(importlib.import_module(module).__all__)
    listed = set(lm._FROM[module].split())
    assert exported - {"capsule_of", "node_from_dlpack", "view"} == listed


@pytest.mark.parametrize(
    "name", sorted(n for n in lm._WHERE if lm._WHERE[n].startswith("lamella.tensor"))
)
def test_every_function_has_an_example(name: str) -> None:
    found = getattr(lm, name)
    doc = inspect.getdoc(found)
    assert doc and (">>>" in doc or name in ("Tensor", "set_num_threads", "masked_fill"))


def test_submodules_do_not_hide_functions() -> None:
    code = (
        "import lamella.tensor.core, lamella.config, lamella as lm\n"
        "print(lm.tensor([1]).tolist(), lm.config.debug)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[1] 0\n"
    )


def test_unknown_names_are_met_with_a_suggestion() -> None:
    with pytest.raises(AttributeError, match="did you mean 'zeros'"):
        lm.zeroes  # noqa: B018


def test_array_api_names_are_there() -> None:
    names = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan
    atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift
    bitwise_xor broadcast_arrays broadcast_to can_cast ceil clip concat copysign cos cosh
    count_nonzero cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1
    eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot
    iinfo inf isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2
    logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max
    maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis nonzero not_equal
    ones ones_like permute_dims pi positive pow prod reciprocal remainder repeat reshape
    result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack
    std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc
    unique_values unstack var vecdot where zeros zeros_like
    """
    assert [name for name in names.split() if not hasattr(lm, name)] == []
