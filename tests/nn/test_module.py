"""Module: registration, walking, state, modes, hooks, the pytree, and what counts as a change."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import OptionError, ShapeError
from lamella.nn import module as module_state


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.tail = nn.Sequential(nn.ReLU(), nn.Linear(3, 1, bias=False))
        self.size = 3

    def forward(self, x: lm.Tensor) -> lm.Tensor:
        return self.tail(self.norm(self.first(x)))


NAMES = ["first.weight", "first.bias", "norm.weight", "norm.bias", "tail.1.weight"]
BUFFERS = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def test_names_are_pytorchs() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == BUFFERS
    assert list(net.state_dict()) == [*NAMES[:4], *BUFFERS, NAMES[4]]
    assert [name for name, _ in net.named_modules()] == [
        "",
        "first",
        "norm",
        "tail",
        "tail.0",
        "tail.1",
    ]
    assert [name for name, _ in net.named_children()] == ["first", "norm", "tail"]
    assert net.get_submodule("tail.1") is net.tail[1]


def test_repr_is_pytorchs() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (norm): BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
        "track_running_stats=True)\n"
        "  (tail): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=3, out_features=1, bias=False)\n"
        "  )\n"
        ")"
    )


def test_parameters_require_gradients_and_results_do() -> None:
    net = Net()
    assert all(p.requires_grad and isinstance(p, nn.Parameter) for p in net.parameters())
    net(lm.ones((4, 2))).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_shared_modules_and_parameters_count_once() -> None:
    net = nn.Module()
    net.a = nn.Linear(2, 2)
    net.b = net.a
    net.tied = net.a.weight
    assert [name for name, _ in net.named_parameters()] == ["tied", "a.bias"] or [
        name for name, _ in net.named_parameters()
    ] == ["a.weight", "a.bias"]
    assert len(list(net.modules())) == 2


def test_assignment_registers_replaces_and_removes() -> None:
    net = nn.Module()
    net.w = nn.Parameter(lm.ones(2))
    old = net.w
    net.w = nn.Parameter(lm.zeros(2))
    assert net.w is not old
    with pytest.raises(OptionError, match="'w' holds a Parameter"):
        net.w = lm.zeros(2)
    net.w = None
    assert list(net.parameters()) == []
    net.w = nn.Parameter(lm.zeros(2))
    del net.w
    with pytest.raises(AttributeError, match="has no attribute 'w'"):
        _ = net.w
    net.layer = nn.ReLU()
    with pytest.raises(OptionError, match="'layer' holds a Module"):
        net.layer = 3


def test_buffers_are_rebound_in_place() -> None:
    net = nn.Module()
    net.register_buffer("seen", lm.zeros(2))
    net.register_buffer("scratch", lm.zeros(1), persistent=False)
    handle = net.seen
    net.seen = lm.ones(2)
    assert net.seen is handle
    assert handle.tolist() == [1.0, 1.0]
    assert list(net.state_dict()) == ["seen"]
    assert len(list(net.buffers())) == 2


def test_forgotten_super_init_says_so() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Bad()


def test_missing_forward_and_unknown_attribute_name_the_fix() -> None:
    with pytest.raises(NotImplementedError, match="define forward"):
        nn.Module()(1)
    with pytest.raises(AttributeError, match="did you mean 'first'"):
        _ = Net().frist


def test_state_dict_is_a_snapshot() -> None:
    net = Net()
    before = net.state_dict()
    value = before["first.bias"].numpy().copy()
    with lm.no_grad():
        net.first.bias.add_(1)
    assert np.array_equal(before["first.bias"].numpy(), value)
    assert not before["first.bias"].requires_grad


def test_load_state_dict_copies_values_and_keeps_handles() -> None:
    source, target = Net(), Net()
    handle = target.first.weight
    result = target.load_state_dict(source.state_dict())
    assert result.missing_keys == result.unexpected_keys == []
    assert target.first.weight is handle
    assert handle.requires_grad
    x = lm.asarray(np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32))
    assert np.array_equal(source.eval()(x).numpy(), target.eval()(x).numpy())
    target.load_state_dict({name: value.numpy() for name, value in source.state_dict().items()})


def test_load_state_dict_names_every_problem_and_changes_nothing() -> None:
    net = Net()
    before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
    state = {name: lm.zeros(value.shape) for name, value in net.state_dict().items()}
    state["first.weight"] = lm.zeros((5, 5))
    state["extra"] = state.pop("norm.bias")
    with pytest.raises(ShapeError) as caught:
        net.load_state_dict(state)
    for part in ["missing: norm.bias", "unexpected: extra", "first.weight", "(5, 5)", "(3, 2)"]:
        assert part in str(caught.value)
    assert all(np.array_equal(before[n], v.numpy()) for n, v in net.state_dict().items())
    del state["first.weight"]
    with pytest.raises(OptionError, match=r"missing: first.weight, norm.bias"):
        net.load_state_dict(state)
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["first.weight", "norm.bias"]
    assert result.unexpected_keys == ["extra"]
    assert net.first.bias.tolist() == [0.0, 0.0, 0.0]


def test_train_eval_and_requires_grad() -> None:
    net = Net()
    assert not net.eval().norm.training
    assert net.train().norm.training
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    assert not net.eval()(lm.ones((2, 2))).requires_grad


def test_to_casts_floats_only() -> None:
    net = Net().to("float64")
    assert all(p.dtype is lm.float64 for p in net.parameters())
    assert net.norm.num_batches_tracked.dtype is lm.int64
    assert net(lm.ones((2, 2), dtype=lm.float64)).dtype is lm.float64
    assert net.to("cpu") is net
    assert all(p.requires_grad for p in net.half().parameters())
    with pytest.raises(OptionError, match="'cuda'"):
        net.to("cuda")
    with pytest.raises(TypeError, match="int32"):
        net.to(lm.int32)


def test_apply_goes_deepest_first() -> None:
    seen: list[str] = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "BatchNorm1d", "ReLU", "Linear", "Sequential", "Net"]


def test_hooks() -> None:
    layer = nn.Identity()
    pre = layer.register_forward_pre_hook(lambda m, args: args[0] + 1)
    post = layer.register_forward_hook(lambda m, args, result: result * 10)
    assert layer(1) == 20
    pre.remove()
    assert layer(1) == 10
    post.remove()
    post.remove()
    assert layer(1) == 1


def test_containers() -> None:
    layers = nn.ModuleList([nn.ReLU()])
    layers.append(nn.Tanh()).insert(0, nn.GELU()).extend([nn.SiLU()])
    assert [type(m).__name__ for m in layers] == ["GELU", "ReLU", "Tanh", "SiLU"]
    assert list(layers._modules) == ["0", "1", "2", "3"]
    assert type(layers[-1]).__name__ == "SiLU"
    assert len(layers[1:3]) == 2
    del layers[0]
    assert type(layers[0]).__name__ == "ReLU"
    with pytest.raises(IndexError, match="index 9"):
        layers[9]
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Linear(1, 1)
    assert list(named.keys()) == ["a", "b"]
    assert "b" in named
    assert len(named) == 2
    first = nn.Sequential({"up": nn.Linear(1, 2), "act": nn.ReLU()})
    assert [name for name, _ in first.named_parameters()] == ["up.weight", "up.bias"]
    assert isinstance(first[:1], nn.Sequential)
    first.append(nn.Tanh())
    assert len(first) == 3


def test_pytree_round_trip_and_map() -> None:
    net = Net().eval()
    leaves, structure = lm.tree.flatten(net)
    assert len(leaves) == 8
    again = lm.tree.unflatten(structure, leaves)
    assert type(again) is Net
    assert again is not net
    assert again.first.weight is net.first.weight
    assert not again.training
    doubled = lm.tree.map(lambda t: t * 2, net)
    assert doubled.first.bias.tolist() == (net.first.bias * 2).tolist()
    assert structure == lm.tree.structure(doubled)
    assert hash(structure) == hash(lm.tree.structure(doubled))
    assert structure != lm.tree.structure(net.train())


def test_pytree_keeps_tied_weights_as_one_leaf() -> None:
    net = nn.Module()
    net.a = nn.Linear(2, 2, bias=False)
    net.b = nn.Linear(2, 2, bias=False)
    net.b.weight = net.a.weight
    leaves, structure = lm.tree.flatten(net)
    assert len(leaves) == 1
    again = lm.tree.unflatten(structure, [lm.zeros((2, 2))])
    assert again.a.weight is again.b.weight


def test_modules_of_numbers_and_flags_have_a_leaf_for_each_tensor() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    net[2].weight = net[0].weight
    for value in (False, 0, 0.5, "decay", lm.float32):
        mask = lm.tree.map(lambda t, v=value: v, net)
        assert lm.tree.leaves(mask) == [value] * len(lm.tree.leaves(net))
        assert lm.tree.structure(mask) == lm.tree.structure(net)
    chosen = lm.tree.map(lambda t: t.ndim > 1, net)
    kept = lm.tree.map(lambda t, yes: t if yes else t * 0, net, chosen)
    assert kept[2].weight is net[0].weight
    assert not kept[0].bias.any()


def test_changing_a_copy_leaves_the_original_alone() -> None:
    net = Net()
    twin = lm.tree.map(lambda t: t, net)
    twin.size = 7
    twin.first = nn.Identity()
    assert net.size == 3
    assert isinstance(net.first, nn.Linear)


def test_copy_and_pickle() -> None:
    net = Net()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert np.array_equal(twin.first.weight.numpy(), net.first.weight.numpy())
        assert isinstance(twin.first.weight, nn.Parameter)
        assert twin.first.weight.requires_grad
        with lm.no_grad():
            twin.first.weight.add_(1)
        assert not np.array_equal(twin.first.weight.numpy(), net.first.weight.numpy())


def test_epoch_counts_changes_that_matter_and_no_others() -> None:
    net = Net()

    def moves(action: object) -> bool:
        before = module_state.epoch
        action()  # type: ignore[operator]
        return module_state.epoch > before

    assert moves(net.eval)
    assert not moves(net.eval)
    assert moves(net.train)
    assert not moves(lambda: setattr(net, "size", 4)), "numbers of a user's module are looked at"
    assert moves(lambda: setattr(net, "size", 4.0))
    assert not moves(lambda: setattr(net, "size", 5.0))
    assert moves(lambda: setattr(net.first, "in_features", 4))
    assert not moves(lambda: setattr(net.first, "in_features", 4))
    assert moves(lambda: setattr(net, "extra", [1]))
    assert moves(lambda: setattr(net, "extra", [1]))
    assert moves(lambda: setattr(net, "first", nn.Linear(2, 3)))
    assert moves(lambda: net.register_forward_hook(lambda *_: None))
    assert moves(lambda: delattr(net, "extra"))
    assert not moves(lambda: net(lm.ones((4, 2))))
    assert not moves(lambda: net.load_state_dict(net.state_dict()))
    assert not moves(net.zero_grad)


def test_casts_by_name() -> None:
    layer = nn.Linear(2, 3)
    for name in ("bfloat16", "half", "double", "float"):
        kind = {"half": "float16", "double": "float64", "float": "float32"}.get(name, name)
        assert getattr(layer, name)() is layer and layer.weight.dtype.name == kind
    assert layer.type(lm.float64).bias.dtype is lm.float64
