"""The computations of layers as functions, with PyTorch's names, arguments and formulas.

Everything is composed of tensor functions, so every transformation applies. Arguments that are
NumPy arrays become tensors. Images are ``(N, C, *spatial)``.
"""

from lamella.nn.functional.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    logsigmoid,
    mish,
    selu,
    selu_,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
    tanhshrink,
)
from lamella.nn.functional.arrange import (
    channel_shuffle,
    fold,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from lamella.nn.functional.attention import scaled_dot_product_attention
from lamella.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from lamella.nn.functional.ctc import ctc_loss
from lamella.nn.functional.distance import (
    cdist,
    cosine_similarity,
    normalize,
    pairwise_distance,
    pdist,
)
from lamella.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from lamella.nn.functional.embedding import embedding, embedding_bag, one_hot, padding_row
from lamella.nn.functional.grid import affine_grid, grid_sample
from lamella.nn.functional.grouped import grouped_mm
from lamella.nn.functional.interpolate import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from lamella.nn.functional.linear import bilinear, linear
from lamella.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from lamella.nn.functional.loss_classes import (
    cross_entropy,
    linear_cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
)
from lamella.nn.functional.loss_pairs import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from lamella.nn.functional.multihead import multi_head_attention_forward
from lamella.nn.functional.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from lamella.nn.functional.padding import pad
from lamella.nn.functional.piecewise import (
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    softshrink,
    threshold,
    threshold_,
)
from lamella.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from lamella.nn.functional.pooling_adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    fractional_max_pool2d,
    fractional_max_pool3d,
)
from lamella.nn.functional.softmax import glu, gumbel_softmax, log_softmax, softmax, softmin
from lamella.nn.functional.unpool import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cdist", "celu", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool3d",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "grouped_mm", "gumbel_softmax",
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "hinge_embedding_loss",
    "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm",
    "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "mish", "mse_loss", "multi_head_attention_forward", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "native_channel_shuffle",
    "nll_loss", "normalize", "one_hot", "pad", "padding_row", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu", "relu6", "relu_",
    "rms_norm", "rrelu", "rrelu_", "scaled_dot_product_attention", "selu", "selu_", "sigmoid",
    "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip
