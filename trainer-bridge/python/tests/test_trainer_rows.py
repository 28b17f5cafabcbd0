"""Layouts, micro-batches and the optimizer step: how a batch is cut changes nothing."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

from headrace.losses import Aggregation, PolicyLoss
from headrace.model import ARCHITECTURE, ModelConfig, Params, hidden, init, logits
from headrace.trainer.learner import SUPERVISED, Knobs, Learner, metrics_of
from headrace.trainer.rows import Rows, from_batch, micro_batches
from tests import synthetic

MODEL = ModelConfig.from_json({"architecture": ARCHITECTURE, **synthetic.MODEL})
KNOBS = Knobs(own_old=0.0, entropy=0.01, kl_beta=0.1, weigh=0.0, cap=2.0)
REFERENCE = init(jax.random.key(1), MODEL)


@pytest.fixture(scope="module")
def learner() -> Learner:
    return Learner(MODEL, PolicyLoss(), optax.sgd(1.0))


def gradient(
    learner: Learner,
    rows: Rows,
    size: int = 4,
    buckets: tuple[int, ...] = (24, 32),
    aggregation: Aggregation = "token-mean",
    knobs: Knobs = KNOBS,
) -> tuple[Params, dict[str, float]]:
    """The gradient (a step of SGD at rate 1) and the metrics."""
    params = init(jax.random.key(0), MODEL)
    before = jax.device_get(params)
    micros = micro_batches(rows, size, buckets, aggregation)
    state, raw = learner.step(learner.start(params), micros, knobs, REFERENCE)
    after = jax.device_get(state.params)
    return {k: before[k] - after[k] for k in before}, metrics_of(raw)


def assert_same(
    a: tuple[Params, dict[str, float]], b: tuple[Params, dict[str, float]], tolerance: float = 1e-5
) -> None:
    for name, x in a[0].items():
        np.testing.assert_allclose(x, b[0][name], atol=tolerance, err_msg=name)
    for name, value in a[1].items():
        assert value == pytest.approx(b[1][name], abs=tolerance, rel=1e-4), name


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean-token-mean"])
def test_micro_batching_changes_no_gradient(learner: Learner, aggregation: Aggregation) -> None:
    rows = from_batch("padded", synthetic.episodes(1))
    whole = gradient(learner, rows, 8, (32,), aggregation)
    assert_same(whole, gradient(learner, rows, 4, (24, 32), aggregation))
    assert_same(whole, gradient(learner, rows, 3, (32,), aggregation))
    assert whole[1]["tokens"] == rows.sampled


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean-token-mean"])
def test_packed_rows_give_the_gradient_of_padded_ones(
    learner: Learner, aggregation: Aggregation
) -> None:
    arrays = synthetic.episodes(2)
    padded = gradient(learner, from_batch("padded", arrays), 8, (32,), aggregation)
    rows = from_batch("packed", synthetic.packed(arrays))
    assert_same(padded, gradient(learner, rows, 4, (64,), aggregation))


def test_prompt_completion_gives_the_gradient_of_padded_rows(learner: Learner) -> None:
    arrays = synthetic.episodes(3)
    padded = gradient(learner, from_batch("padded", arrays), 8, (32,))
    rows = from_batch("prompt_completion", synthetic.prompt_completion(arrays))
    assert_same(padded, gradient(learner, rows, 8, (64,)))


def test_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown layout 'ragged'"):
        from_batch("ragged", {})


def test_rows_are_copies() -> None:
    arrays = synthetic.episodes(1)
    rows = from_batch("padded", arrays)
    for x in (rows.tokens, rows.mask, rows.logprobs, rows.advantages):
        assert not any(np.shares_memory(x, y) for y in arrays.values())


def test_micro_batches_are_short_and_skip_empty_rows() -> None:
    rows = from_batch("padded", synthetic.episodes(4, rows=9))
    micros = list(micro_batches(rows, 4, (24, 32), "token-mean"))
    assert [m.tokens.shape[0] for m in micros] == [4, 4]
    assert {m.tokens.shape[1] for m in micros} <= {24, 32}
    assert sum(int(m.mask.sum()) for m in micros) == rows.sampled
    assert sum(float(m.weights.sum()) for m in micros) == pytest.approx(1.0)
    for m in micros:
        assert (m.tokens[m.mask.sum(1) == 0] == 0).all()


def test_shapes_depend_on_the_micro_batch_alone() -> None:
    shapes = {
        tuple(x.shape for x in m if x is not None)
        for step in range(20)
        for m in micro_batches(
            from_batch("padded", synthetic.episodes(step)), 4, (24, 32), "token-mean"
        )
    }
    assert len(shapes) <= 2


def test_supervised_gradient_is_that_of_the_likelihood(learner: Learner) -> None:
    rows = from_batch("padded", synthetic.episodes(5))
    rows = Rows(rows.tokens, rows.mask, np.zeros_like(rows.logprobs), rows.mask)
    got, metrics = gradient(learner, rows, knobs=SUPERVISED)

    def nll(params: Params) -> jax.Array:
        tokens = jax.numpy.asarray(rows.tokens)
        lp = jax.nn.log_softmax(logits(params, MODEL, hidden(params, MODEL, tokens)))
        picked = jax.numpy.take_along_axis(lp[:, :-1], rows.tokens[:, 1:, None], 2)[..., 0]
        return -(picked * rows.mask[:, 1:]).sum() / rows.mask.sum()

    want, grads = jax.value_and_grad(nll)(init(jax.random.key(0), MODEL))
    assert metrics["nll"] == pytest.approx(float(want), rel=1e-5)
    for name, x in grads.items():
        np.testing.assert_allclose(got[name], x, atol=1e-6, err_msg=name)


def test_importance_weights_scale_the_loss(learner: Learner) -> None:
    """A sampler that reports half the trainer's probability: every weight is 2, below the cap."""
    rows = from_batch("padded", synthetic.episodes(6))
    plain = Knobs(own_old=1.0, entropy=0.0, kl_beta=0.0, weigh=0.0, cap=5.0)
    lp = learner._logprobs(
        init(jax.random.key(0), MODEL), next(micro_batches(rows, 8, (32,), "token-mean"))
    )
    micro = next(micro_batches(rows, 8, (32,), "token-mean"))
    micro = micro._replace(logprobs=np.asarray(lp) - np.log(2.0).astype(np.float32))
    grads = []
    for knobs in (plain, plain._replace(weigh=1.0), plain._replace(weigh=1.0, cap=1.5)):
        params = init(jax.random.key(0), MODEL)
        before = jax.device_get(params)
        state, raw = learner.step(learner.start(params), [micro], knobs)
        grads.append(before["head"] - jax.device_get(state.params)["head"])
        assert metrics_of(raw)["is_weight_max"] == pytest.approx(min(2.0, knobs.cap), rel=1e-4)
    np.testing.assert_allclose(grads[1], 2.0 * grads[0], atol=1e-6)
    np.testing.assert_allclose(grads[2], 1.5 * grads[0], atol=1e-6)
