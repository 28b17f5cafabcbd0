"""The life of a training run: start or resume, learn from each batch, report, save.

What is durable comes first: a step is committed after its optimizer step, weights are announced
after their files are on disk, a checkpoint after its rename. A trainer that dies anywhere goes on
from its last checkpoint with the same batches, and, on CPU, the same bits.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from headrace import checkpoint as checkpoints
from headrace import trackers, warmstart, weights
from headrace.batch import Batch
from headrace.checkpoint import Checkpoint
from headrace.dial import connect
from headrace.feed import Feed
from headrace.model import ARCHITECTURE, ModelConfig, Params, init
from headrace.stalls import Stalled
from headrace.trainer.config import TrainerConfig
from headrace.trainer.learner import Knobs, Learner, State, adamw, metrics_of
from headrace.trainer.profile import Profiler
from headrace.trainer.rows import from_batch, micro_batches

_log = logging.getLogger("headrace.trainer")

KEPT_VERSIONS = 8
"""Weight versions that stay on disk: engines a few versions behind still find theirs."""
_PROGRESS_S = 3.0


class TrainingError(Exception):
    """Training cannot go on, and starting again would not help."""


class Stop:
    """A request to end after the current step; safe to make from signal handlers and threads."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._feed: Feed | None = None

    def set(self) -> None:
        """Ask for the end; wakes the feed if it waits for a batch."""
        self._event.set()
        if self._feed is not None:
            self._feed.interrupt()

    def is_set(self) -> bool:
        """Return whether the end was asked for."""
        return self._event.is_set()

    def watch(self, feed: Feed) -> None:
        """Have `feed` interrupted by `set`, at once if that was before."""
        self._feed = feed
        if self.is_set():
            feed.interrupt()


def run(
    address: str, stop: Stop, checkpoint_dir: str | None = None, started_ns: int | None = None
) -> None:
    """Train at the feed `address` until it ends, the configured steps are done, or `stop`.

    Checkpoints are looked for in `checkpoint_dir`, by default the folder "checkpoints" beside a
    Unix socket; should the bridge name another folder that holds one, the feed is opened again.
    `started_ns` is when the process began, by `time.monotonic_ns`.
    """
    started_ns = started_ns or time.monotonic_ns()
    where = checkpoint_dir or _beside(address)
    saved = checkpoints.latest(where) if where else None
    feed = connect(address, checkpoint_step=saved.step if saved else None)
    told = feed.config.paths.checkpoints
    if told and not (where and os.path.realpath(told) == os.path.realpath(where)):
        other = checkpoints.latest(told)
        if other is not None and (saved is None or other.step != saved.step):
            feed.close(f"found the checkpoint of step {other.step}")
            saved, feed = other, connect(address, checkpoint_step=other.step)
    with feed:
        stop.watch(feed)
        feed.on_stall = _log_stall
        Trainer(feed, stop, started_ns).run(saved)
        feed.flush(30.0)
        feed.close("interrupted" if stop.is_set() else "done")


def _log_stall(s: Stalled) -> None:
    _log.warning("no batch for %.0f s, %s (%s): %s", s.since_s, s.stage, s.code, s.text)


def _beside(address: str) -> str | None:
    kind, _, path = address.partition(":")
    folder = Path(path).parent / "checkpoints"
    return str(folder) if kind == "unix" and folder.is_dir() else None


class Trainer:
    """One incarnation of the trainer on an open feed."""

    def __init__(self, feed: Feed, stop: Stop, started_ns: int | None = None) -> None:
        self.feed, self.stop, self.started_ns = feed, stop, started_ns
        feed.spans.watch_compiles()
        if not (feed.config.paths.weights and feed.config.paths.checkpoints):
            raise TrainingError("the bridge names no folders for weights and checkpoints")
        self.cfg = TrainerConfig.from_dict(feed.config.trainer)
        trackers.attach(feed, trackers.chosen(self.cfg.trackers))
        self.model = ModelConfig.from_json({"architecture": ARCHITECTURE, **feed.config.model})
        c = self.cfg
        self.learner = Learner(
            self.model, c.policy_loss(), adamw(c.lr, c.betas, c.weight_decay, c.grad_clip)
        )
        self.buckets = c.ladder(self.model.max_context)
        weigh = c.importance_sampling.mode == "token"
        self.knobs = Knobs(
            float(weigh), c.entropy, c.kl_beta, float(weigh), c.importance_sampling.cap
        )
        p = c.profile
        self.profiler = Profiler(
            self._checkpoint_dir / "profiles", feed.config.run, p.steps, p.keep
        )
        self.state: State
        self.reference: Params | None = None
        self.step, self.ledger_seq = 0, 0
        self.saved_step = self.published = -1

    def run(self, saved: Checkpoint | None) -> None:
        """Start or resume, then train until there is a reason to end."""
        with self.feed.spans.span("start", since_ns=self.started_ns):
            if saved is not None:
                self._resume(saved)
            elif not self._start():
                return
        while not (self.cfg.steps and self.step >= self.cfg.steps):
            batch = next(self.feed, None)
            if batch is None:
                break
            if self.profiler.begins(batch.step):
                with self.feed.span("profile", step=batch.step):
                    self.profiler.start(batch.step)
            self._train(batch)
            if self.profiler.ends(batch.step):
                self._end_profile()
        self._end_profile()
        if self.published < self.step:
            self._publish()
        if self.saved_step < self.step:
            self._save()
        end = self.feed.end
        why = end.reason + (f": {end.text}" if end.text else "") if end else "all steps done"
        _log.info("trained to step %d (%s)", self.step, why)

    # --- beginnings --------------------------------------------------------------------------

    def _start(self) -> bool:
        """Make version 0. Returns False if it was stopped before there was one."""
        params = init(jax.random.key(self.cfg.seed), self.model)
        count = sum(x.size for x in params.values())
        _log.info("fresh start: %d parameters, seed %d", count, self.cfg.seed)
        params = self._warm_up(params)
        if self.stop.is_set():
            return False
        if self.cfg.kl_beta:
            self.reference = {k: v.copy() for k, v in params.items()}
        self.state = self.learner.start(params)
        self._save()
        self._publish()
        return True

    def _warm_up(self, params: Params) -> Params:
        w, demos_path = self.cfg.warm_start, self.feed.config.paths.demos
        if w.steps == 0:
            return params
        if not demos_path:
            raise TrainingError("warm_start.steps is set, but the run has no demonstrations")
        demos = warmstart.read(
            demos_path, vocab_size=self.model.vocab_size, max_tokens=self.model.max_context
        )
        _log.info("warm start on %d episodes of mean reward %.3f", len(demos), demos.reward_mean)
        learner = self.learner.with_optimizer(
            adamw(w.lr, warmstart.BETAS, warmstart.WEIGHT_DECAY, warmstart.GRAD_CLIP)
        )
        return warmstart.train(
            learner,
            learner.start(params),
            demos,
            steps=w.steps,
            batch=w.batch,
            seed=self.cfg.seed,
            buckets=self.buckets,
            micro_batch=self.cfg.micro_batch,
            on_progress=_Progress(self.feed),
            stop=self.stop.is_set,
        ).params

    def _resume(self, saved: Checkpoint) -> None:
        """Go on behind a checkpoint; its version and the checkpoint are announced again."""
        example = self.learner.start(init(jax.random.key(self.cfg.seed), self.model))
        self.state = _restore(example, saved.arrays, "")
        if self.cfg.kl_beta:
            self.reference = _restore(example.params, saved.arrays, "reference")
        self.step, self.ledger_seq, self.saved_step = saved.step, saved.ledger_seq, saved.step
        _log.info("resumed at step %d, incarnation %d", self.step, self.feed.config.incarnation)
        self._publish()
        self.feed.checkpointed(self.step, self._checkpoint_dir / f"step-{self.step:09d}")

    # --- one step ----------------------------------------------------------------------------

    def _train(self, batch: Batch) -> None:
        begun = time.monotonic()
        with self.feed.span("prepare", step=batch.step):
            rows = from_batch(batch.layout, batch.arrays)
            batch.release()
        with self.feed.span("train step", step=batch.step), self.profiler.step(batch.step):
            micros = micro_batches(rows, self.cfg.micro_batch, self.buckets, self.cfg.aggregation)
            self.state, raw = self.learner.step(self.state, micros, self.knobs, self.reference)
            metrics = metrics_of(raw)
        if not math.isfinite(metrics["loss"]) or not math.isfinite(metrics["grad_norm"]):
            raise TrainingError(f"step {batch.step}: loss or gradient is not finite: {metrics}")
        self.step, self.ledger_seq = batch.step, batch.ledger_seq
        took = time.monotonic() - begun
        metrics |= {"lr": self.cfg.lr, "reward_mean": batch.reward_mean, "rows": batch.rows}
        metrics["staleness_mean"] = float(batch.staleness.get("mean", 0.0))
        self.feed.commit(self.step, metrics, train_s=took, tokens=batch.token_count)
        _log_step(batch, metrics, took, self.feed.wait_s)
        if self.step % self.cfg.sync_every == 0:
            self._publish()
        if self.step % self.cfg.checkpoint_every == 0:
            self._save()

    def _end_profile(self) -> None:
        """End the profile that is being taken, if one is, and say where it is."""
        if not self.profiler.active:
            return
        with self.feed.span("profile", step=self.step):
            folder = self.profiler.stop()
        if folder is not None:
            self.feed.notice("log", f"JAX profile in {folder}")

    # --- what leaves the process -------------------------------------------------------------

    def _publish(self) -> None:
        """Write the weights as a version, announce it, and wait for engines if so configured."""
        with self.feed.span("publish weights", version=self.step):
            self._publish_version()

    def _publish_version(self) -> None:
        root, publication = Path(self.feed.config.paths.weights), self.feed.config.incarnation
        params = jax.device_get(self.state.params)
        while (root / (name := weights.version_dir(self.step, publication))).exists():
            publication += 1
        path, files = weights.save(root, name, params, self.model)
        weights.prune(root, KEPT_VERSIONS, newest=path)
        self.feed.publish_weights(self.step, self.step, path, files)
        self.published = self.step
        wait = self.cfg.wait_weights
        if wait.need == "none":
            return
        acks = self.feed.wait_weights(self.step, wait.need, wait.timeout_s)
        if acks.timed_out:
            missing = ", ".join(acks.missing) or "an engine"
            _log.warning("version %d: %s has not loaded it, going on", self.step, missing)

    def _save(self) -> None:
        with self.feed.span("checkpoint", step=self.step):
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        arrays = _flatten(self.state, "")
        if self.reference is not None:
            arrays |= _flatten(self.reference, "reference")
        extra = {
            "trainer": self.cfg.to_dict(),
            "model": self.model.to_json(),
            "rng": {"seed": self.cfg.seed, "draws": "initial weights and demonstrations only"},
            "run": self.feed.config.run,
        }
        saved = Checkpoint(self.step, self.ledger_seq, arrays, extra)
        path = checkpoints.save(self._checkpoint_dir, saved, self.cfg.checkpoint_keep)
        self.saved_step = self.step
        self.feed.checkpointed(self.step, path)

    @property
    def _checkpoint_dir(self) -> Path:
        return Path(self.feed.config.paths.checkpoints)


class _Progress:
    """Tells people about the warm start: a NOTICE and a log line every few seconds."""

    def __init__(self, feed: Feed) -> None:
        self._feed, self._last = feed, -math.inf

    def __call__(self, done: int, total: int, loss: float) -> None:
        now = time.monotonic()
        if now - self._last < _PROGRESS_S and done < total:
            return
        self._last = now
        _log.info("warm start %d/%d, loss %.3f", done, total, loss)
        fields = {"phase": "warm start", "done": done, "total": total, "loss": loss}
        self._feed.notice("progress", f"warm start {done}/{total}", **fields)
        self._feed.spans.cut(_PROGRESS_S)  # so that whoever watches sees a long start


def _log_step(batch: Batch, m: Mapping[str, float], took: float, waited: float) -> None:
    _log.info(
        "step %d: reward %.3f loss %+.4f entropy %.3f clipped %.3f grad %.2f"
        " (train %.2f s, waited %.2f s, digest %s)",
        batch.step,
        m["reward_mean"],
        m["loss"],
        m["entropy"],
        m["clip_fraction"],
        m["grad_norm"],
        took,
        waited,
        batch.digest,
    )


def _flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays of a pytree by path, such as ".params['embed']"."""
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(tree))
    return {prefix + jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}


def _restore(example: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """Return a pytree like `example` from its saved arrays. Raises `TrainingError`."""

    def leaf(path: Any, like: jax.Array) -> jax.Array:
        name = prefix + jax.tree_util.keystr(path)
        x = arrays.get(name)
        if x is None or x.shape != like.shape or x.dtype != like.dtype:
            found = "nothing" if x is None else f"{x.dtype} {x.shape}"
            raise TrainingError(
                f"checkpoint holds {found} for {name}, the run needs {like.dtype} {like.shape}:"
                " was the recipe changed?"
            )
        return jax.numpy.array(x)

    return jax.tree_util.tree_map_with_path(leaf, example)
