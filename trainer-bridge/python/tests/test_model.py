import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace import model
from headrace.model import ModelConfig

CFG = ModelConfig(vocab_size=50, d_model=32, layers=2, heads=2, d_ff=64)
PARAMS = model.init(jax.random.key(0), CFG)
TOKENS = jax.random.randint(jax.random.key(1), (3, 20), 0, CFG.vocab_size)


def test_config_survives_json_and_ignores_new_fields() -> None:
    assert ModelConfig.from_json({**CFG.to_json(), "added_later": 1}) == CFG


def test_parameters_have_the_announced_names_and_shapes() -> None:
    assert {k: v.shape for k, v in PARAMS.items()} == model.shapes(CFG)
    assert {v.dtype for v in PARAMS.values()} == {jnp.dtype("float32")}


def test_hidden_is_causal() -> None:
    changed = TOKENS.at[:, 12].set((TOKENS[:, 12] + 1) % CFG.vocab_size)
    a, b = model.hidden(PARAMS, CFG, TOKENS), model.hidden(PARAMS, CFG, changed)
    np.testing.assert_array_equal(a[:, :12], b[:, :12])
    assert not np.allclose(a[:, 12:], b[:, 12:])


def test_packed_rows_give_what_each_sequence_gives_alone() -> None:
    alone = model.hidden(PARAMS, CFG, TOKENS)
    packed = jnp.concatenate([TOKENS[0, :7], TOKENS[1, :9], TOKENS[2, :4], jnp.zeros(4, int)])
    segments = jnp.repeat(jnp.array([1, 2, 3, 0]), jnp.array([7, 9, 4, 4]))
    positions = jnp.concatenate([jnp.arange(7), jnp.arange(9), jnp.arange(4), jnp.arange(4)])
    for given in (positions[None], None):
        x = model.hidden(PARAMS, CFG, packed[None], given, segments[None])[0]
        np.testing.assert_allclose(x[:7], alone[0, :7], atol=1e-5)
        np.testing.assert_allclose(x[7:16], alone[1, :9], atol=1e-5)
        np.testing.assert_allclose(x[16:20], alone[2, :4], atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_token_logprobs_are_those_of_the_full_softmax(temperature: float) -> None:
    idx = jnp.array([[1, 5, 19], [3, 4, 0], [10, 0, 0]])
    logp, entropy = model.token_logprobs(PARAMS, CFG, TOKENS, idx, temperature=temperature)
    scores = model.logits(PARAMS, CFG, model.hidden(PARAMS, CFG, TOKENS)) / temperature
    full = jax.nn.log_softmax(scores, axis=-1)
    for row, col in zip(*np.nonzero(np.asarray(idx)), strict=True):
        at = int(idx[row, col])
        expected = full[row, at - 1]
        assert logp[row, col] == pytest.approx(float(expected[TOKENS[row, at]]), abs=1e-5)
        nats = -float(jnp.sum(jnp.exp(expected) * expected))
        assert entropy[row, col] == pytest.approx(nats, abs=1e-5)
    assert np.isfinite(np.asarray(logp)).all()


def test_extend_in_uneven_chunks_equals_the_full_forward() -> None:
    full = model.hidden(PARAMS, CFG, TOKENS)
    cache = [c + 1e3 for c in model.new_cache(CFG, slots=6, capacity=32)]  # stale: must not matter
    slots, lengths = jnp.array([4, 0, 2]), jnp.zeros(3, jnp.int32)
    ends = np.array([[5, 8, 1], [13, 9, 1], [20, 17, 8], [20, 20, 16], [20, 20, 20]])
    for end in ends:
        counts = jnp.asarray(end) - lengths
        padded = jnp.pad(TOKENS, ((0, 0), (0, 8)))
        chunk = jnp.stack([padded[r, lengths[r] : lengths[r] + 8] for r in range(3)])
        x, cache = model.extend(PARAMS, CFG, cache, chunk, lengths, slots)
        for row, count in enumerate(counts.tolist()):
            begin = int(lengths[row])
            want = full[row, begin : begin + count]
            np.testing.assert_allclose(x[row, :count], want, atol=1e-5)
        lengths = lengths + counts
