"""Values looked at inside a function that is differentiated: constants, never silent zeros."""

import numpy as np
import pytest

import lamella as lm
from lamella.errors import GradientError

X = lm.asarray([1.0, 2.0, 3.0])

LEAVING = {
    "numpy": lambda x: lm.asarray(np.sum(np.sin(x.numpy()))),
    "np.asarray": lambda x: np.sum(np.asarray(x)),
    "item": lambda x: x.sum().item(),
    "float": lambda x: float((x * x).sum()),
    "complex": lambda x: complex(x.sum()).real,
    "tolist": lambda x: sum(x.tolist()),
    "tensor": lambda x: lm.tensor(float(x.sum())) * 2,
    "np.from_dlpack": lambda x: np.from_dlpack(x).sum(),
}


@pytest.mark.parametrize("f", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize(
    "name", ["grad", "value_and_grad", "hessian", "jacrev", "jacfwd", "vjp", "linearize", "jvp"]
)
def test_a_result_that_left_the_graph_has_no_silent_derivative(name, f):
    calls = {
        "vjp": lambda: lm.vjp(f, X),
        "linearize": lambda: lm.linearize(f, X),
        "jvp": lambda: lm.jvp(f, (X,), (X,)),
    }
    call = calls.get(name, lambda: getattr(lm, name)(f)(X))
    with pytest.raises(GradientError, match=rf"^\[{name}\].*left the graph.*test_looks\.py:\d+"):
        call()


def test_the_outer_derivative_sees_what_an_inner_one_looked_at():
    with pytest.raises(GradientError):
        lm.grad(lambda x: lm.grad(lambda y: (y**3).sum())(x).numpy().sum())(X)


def test_one_of_several_results_that_left_the_graph_is_named():
    with pytest.raises(GradientError, match=r"ndarray at \[1\]"):
        lm.vjp(lambda x: (x * 2, x.numpy()), X)


def test_looked_at_values_are_constants_elsewhere():
    """As in PyTorch: a factor taken by item() is detached; prints and branches are free."""

    def f(x):
        total = float(x.sum())
        text = f"{x.sum():.2f} {x}"
        return (x * total).sum() if x.sum() > 0 and text else x.sum()

    np.testing.assert_array_equal(lm.grad(f)(X).numpy(), np.full(3, 6.0))


def test_what_depends_on_nothing_has_derivative_zero():
    w = lm.tensor([2.0], requires_grad=True)
    for f in (
        lambda x: 3.0,
        lambda x: lm.asarray(3.0),
        lambda x: lm.stop_gradient(x).sum().item(),
        lambda x: x.detach().numpy().sum(),
        lambda x: w.item(),  # depends on something else
        lambda x: lm.zeros(()) if x.sum() > 0 else x.sum(),
    ):
        assert lm.grad(f)(X).tolist() == [0.0, 0.0, 0.0]


def test_auxiliary_output_may_leave_the_graph():
    gradient, logged = lm.grad(lambda x: (x.sum(), float(x.sum())), has_aux=True)(X)
    assert gradient.tolist() == [1.0, 1.0, 1.0] and logged == 6.0
