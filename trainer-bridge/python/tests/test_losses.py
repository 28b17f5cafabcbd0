"""Losses against published golden values, definitions and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.losses import (
    Aggregation,
    KLMode,
    PolicyLoss,
    aggregate,
    importance_weights,
    kl_divergence,
    policy_loss,
    sequence_mean,
    token_weights,
)

AGGREGATIONS: tuple[Aggregation, ...] = (
    "token-mean",
    "sequence-mean-token-mean",
    "sequence-mean-token-scale",
    "seq-mean-token-sum",
    "sequence-mean-token-sum-norm",
)
L = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
M = np.array([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("aggregation", "norm", "want"),
    [
        ("token-mean", None, 0.36),
        ("sequence-mean-token-mean", None, 0.325),
        ("sequence-mean-token-scale", None, 0.3),
        ("sequence-mean-token-scale", 3.14, 0.286624),
        ("seq-mean-token-sum", None, 0.9),
        ("sequence-mean-token-sum-norm", None, 0.9),
        ("sequence-mean-token-sum-norm", 4.0, 0.45),
    ],
)
def test_aggregation_golden_values(
    aggregation: Aggregation, norm: float | None, want: float
) -> None:
    assert float(aggregate(L, M, aggregation, norm=norm)) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_empty_mask_gives_zero(aggregation: Aggregation) -> None:
    assert float(aggregate(L, np.zeros((2, 3)), aggregation)) == 0


def test_empty_sequences_do_not_count() -> None:
    mask = np.array([[1, 1, 0], [0, 0, 0]])
    assert float(aggregate(L, mask, "seq-mean-token-sum")) == pytest.approx(0.3)
    assert float(aggregate(L, mask, "sequence-mean-token-mean")) == pytest.approx(0.15)


def test_micro_batches_are_sum_over_sum_not_mean_of_means() -> None:
    """(10 over 4 tokens) and (2 over 1 token) are 2.4, not 2.25."""
    loss = jnp.array([[2.5, 2.5, 2.5, 2.5], [2.0, 0, 0, 0]])
    mask = np.array([[1, 1, 1, 1], [1, 0, 0, 0]])
    weights, denominator = token_weights(mask, "token-mean")
    parts = [float((loss[i] * weights[i]).sum() / denominator) for i in (0, 1)]
    assert sum(parts) == pytest.approx(2.4)


KL = {
    "kl": [0.38486493, 0.7469206, 0.3495195, -0.4474684, -0.13095665, -0.61533415],
    "mse_kl": [0.07406051, 0.27894518, 0.06108194, 0.10011399, 0.00857482, 0.18931806],
    "low_var_kl": [0.0654075, 0.220744, 0.0545462, 0.1168784, 0.0089617, 0.2349406],
}


@pytest.mark.parametrize("mode", ["kl", "mse_kl", "low_var_kl"])
def test_kl_golden_values(mode: KLMode) -> None:
    logprobs = jnp.array([KL["kl"]]) - 1.5
    got = kl_divergence(logprobs, jnp.full((1, 6), -1.5), mode)
    np.testing.assert_allclose(got[0], KL[mode], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ratio", ["token", "gspo-token"])
def test_packed_equals_unpacked(ratio: str) -> None:
    """Advantage 1.5 on three tokens, 3.0 on one, ratio 1: -2.25, packed or not (not -1.875)."""
    cfg = PolicyLoss(ratio=ratio)  # type: ignore[arg-type]
    lp = jnp.log(jnp.full((2, 3), 0.5))
    mask = np.array([[1, 1, 1], [1, 0, 0]])
    rows = policy_loss(cfg, lp, lp, jnp.array([[1.5], [3.0]]), jnp.asarray(mask))
    assert float(aggregate(rows.loss, mask, "sequence-mean-token-mean")) == pytest.approx(-2.25)

    lp, adv = lp.reshape(1, 6), jnp.array([[1.5, 1.5, 1.5, 3.0, 0, 0]])
    mask, seg = mask.reshape(1, 6), np.array([[1, 1, 1, 2, 0, 0]])
    packed = policy_loss(cfg, lp, lp, adv, jnp.asarray(mask), jnp.asarray(seg))
    got = aggregate(packed.loss, mask, "sequence-mean-token-mean", seg)
    assert float(got) == pytest.approx(-2.25)
    assert float(aggregate(packed.loss, mask, "sequence-mean-token-mean")) == pytest.approx(-1.875)


def test_kl_term_golden_value() -> None:
    """logp = -ln 32, reference -0.1 or -1.1, advantages [-1, 1, 0, 0], beta 0.1: -0.286574."""
    lp = jnp.full((4, 2), -np.log(32.0))
    ref = jnp.array([[-0.1, -1.1]] * 4)
    mask = np.ones((4, 2))
    adv = jnp.array([[-1.0], [1.0], [0.0], [0.0]])
    token = policy_loss(PolicyLoss(), lp, lp, adv, jnp.asarray(mask))
    total = token.loss + 0.1 * kl_divergence(lp, ref, "kl")
    assert float(aggregate(total, mask, "token-mean")) == pytest.approx(-0.286574, abs=1e-6)


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "loss", "clipped"),
    [
        (0.0, 1.0, -1.0, 0),
        (np.log(1.2), 1.0, -1.2, 0),
        (np.log(1.5), 1.0, -1.28, 1),
        (np.log(0.5), 1.0, -0.5, 0),
        (np.log(0.9), -1.0, 0.9, 0),
        (np.log(0.5), -1.0, 0.8, 1),
        (np.log(2.0), -1.0, 2.0, 0),
        (np.log(5.0), -1.0, 3.0, 1),
        (50.0, 1.0, -1.28, 1),
    ],
)
def test_clip_table(log_ratio: float, advantage: float, loss: float, clipped: int) -> None:
    cfg = PolicyLoss(clip_low=0.2, clip_high=0.28, dual_clip=3.0)
    one = jnp.ones((1, 1))
    got = policy_loss(cfg, one * log_ratio - 60, one * -60, one * advantage, one)
    assert float(got.loss[0, 0]) == pytest.approx(loss, rel=1e-4)
    assert float(got.clipped[0, 0]) == clipped


def test_masked_places_cannot_spoil_a_gradient() -> None:
    lp, mask = jnp.array([[-1.0, -1e30]]), jnp.array([[1.0, 0.0]])

    def loss(lp: jax.Array) -> jax.Array:
        token = policy_loss(PolicyLoss(), lp, jnp.array([[-1.0, 1e30]]), jnp.ones((1, 1)), mask)
        return (token.loss * mask).sum()

    np.testing.assert_allclose(jax.grad(loss)(lp), [[-1.0, 0.0]])


def test_importance_weights_are_truncated_and_detached() -> None:
    lp = jnp.log(jnp.array([[0.5, 0.9, 0.1, 1e-20]]))
    sampler = jnp.log(jnp.array([[0.5, 0.3, 0.2, 1.0]]))
    np.testing.assert_allclose(
        importance_weights(lp, sampler, 2.0), [[1.0, 2.0, 0.5, np.exp(-20)]], rtol=1e-5
    )
    assert (jax.grad(lambda x: importance_weights(x, sampler, 2.0).sum())(lp) == 0).all()


def test_gspo_ratio_is_the_sequences_and_its_gradient_each_tokens_own() -> None:
    old = jnp.zeros((1, 4)) - 1
    lp = old + jnp.array([[0.1, 0.0, -0.04, 5.0]])
    mask, seg = jnp.array([[1.0, 1, 1, 0]]), jnp.array([[1, 1, 2, 0]])
    cfg = PolicyLoss(ratio="gspo-token")
    got = policy_loss(cfg, lp, old, jnp.ones((1, 1)), mask, seg)
    np.testing.assert_allclose(got.log_ratio, [[0.05, 0.05, -0.04, 0]], atol=1e-6)
    grad = jax.grad(
        lambda x: (policy_loss(cfg, x, old, jnp.ones((1, 1)), mask, seg).loss * mask).sum()
    )(lp)
    np.testing.assert_allclose(grad, -np.exp([[0.05, 0.05, -0.04, 0]]) * mask, rtol=1e-5)


def test_sequence_mean_of_packed_rows() -> None:
    x = jnp.array([[1.0, 3, 5, 7, 9], [2, 2, 8, 0, 0]])
    mask = jnp.array([[1, 1, 1, 0, 0], [1, 0, 1, 0, 0]])
    seg = jnp.array([[1, 1, 2, 2, 0], [1, 2, 2, 0, 0]])
    got = sequence_mean(x, mask, seg)
    np.testing.assert_allclose(got[0, :4], [2, 2, 5, 5])
    np.testing.assert_allclose(got[1, :3], [2, 8, 8])


@pytest.mark.parametrize("mode", ["kl", "mse_kl", "low_var_kl"])
@pytest.mark.parametrize("ratio", ["token", "gspo-token"])
def test_gradient_equals_finite_differences(mode: KLMode, ratio: str) -> None:
    """Through logits, in float64; gspo-token's value is not its gradient's antiderivative, so there
    the directional derivative is taken along a constant shift of each sequence."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        ref, old = (jnp.asarray(rng.normal(size=(3, 4)) * 0.05 - 1) for _ in range(2))
        adv, mask = jnp.asarray(rng.normal(size=(3, 1))), jnp.asarray(M.repeat(2, 1)[[0, 1, 1], :4])
        cfg = PolicyLoss(kl_mode=mode, ratio=ratio, dual_clip=3.0)  # type: ignore[arg-type]
        x0 = jnp.asarray(rng.normal(size=(3, 4)) * 0.05 - 1)
        along = jnp.ones_like(x0) if ratio == "gspo-token" else jnp.asarray(rng.normal(size=(3, 4)))

        def loss(x: jax.Array) -> jax.Array:
            token = policy_loss(cfg, x, old, adv, mask)
            total = token.loss + 0.1 * kl_divergence(x, ref, mode)
            return (total * mask).sum() / mask.sum()

        exact = float((jax.grad(loss)(x0) * along).sum())
        eps = 1e-5
        numeric = float(loss(x0 + eps * along) - loss(x0 - eps * along)) / (2 * eps)
    assert exact == pytest.approx(numeric, rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(AGGREGATIONS), st.integers(1, 5), st.integers(0, 2**31))
def test_packing_rows_changes_no_aggregation(
    aggregation: Aggregation, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    loss = rng.normal(size=(rows, 6)).astype(np.float32)
    mask = rng.integers(0, 2, (rows, 6))
    segments = np.arange(1, rows + 1)[:, None] * np.ones((1, 6), int)
    alone = aggregate(jnp.asarray(loss), mask, aggregation, norm=7.0)
    packed = aggregate(
        jnp.asarray(loss.reshape(1, -1)),
        mask.reshape(1, -1),
        aggregation,
        segments.reshape(1, -1),
        norm=7.0,
    )
    assert float(alone) == pytest.approx(float(packed), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("bad", [{"clip_low": 2}, {"dual_clip": 0.5}, {"kl_mode": "k9"}])
def test_impossible_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        PolicyLoss(**bad)  # type: ignore[arg-type]
