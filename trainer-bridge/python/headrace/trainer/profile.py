"""JAX profiles of chosen steps, tied to the run's time so that `headrace trace` can merge them.

A profile is a folder as TensorBoard and xprof read it, with `profile.json` beside: which steps, and
when. The times in a profile count from its beginning, so each step is also marked with an
annotation that has its Unix time: with that, an event is placed to well under a millisecond.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import jax

_log = logging.getLogger("headrace.trainer")

STEPS_ENV = "HEADRACE_PROFILE_STEPS"
"""Steps to profile, as "40" or "40..42"; goes before the recipe's."""
CLOCK = "headrace clock"
"""Name of the annotation whose argument `unix_ns` is the time at which it begins."""
STEP = "train step"
_INFO = "profile.json"
_MOST_STEPS = 100


@dataclass
class _Info:
    run: str
    first: int
    final: int
    started_unix_ns: int
    stopped_unix_ns: int = 0


def parse_steps(text: str) -> range:
    """Read "40" or "40..42", both included; "" is none. Raises `ValueError`."""
    if not text:
        return range(0)
    found = re.fullmatch(r"(\d{1,12})(?:\.\.(\d{1,12}))?", text)
    first, final = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
    if not 1 <= first <= final < first + _MOST_STEPS:
        raise ValueError(
            f"profile steps {text!r}: want a step, or steps as in 40..42, {_MOST_STEPS} at most"
        )
    return range(first, final + 1)


class Profiler:
    """Profiles the steps of a range into a folder below `root`, where the newest `keep` stay.

    A profile that cannot be taken costs a warning, never a step.
    """

    def __init__(self, root: Path, run: str, steps: str, keep: int = 3) -> None:
        self._root, self._run, self._keep = root, run, keep
        self._steps = parse_steps(os.environ.get(STEPS_ENV) or steps)
        self._folder: Path | None = None
        self._info: _Info | None = None

    @property
    def active(self) -> bool:
        """Whether a profile is being taken."""
        return self._folder is not None

    def begins(self, step: int) -> bool:
        """Return whether a profile starts before `step`; the call after it is `start`."""
        return not self.active and step in self._steps

    def start(self, step: int) -> None:
        """Start a profile with `step`."""
        now = time.time_ns()
        folder = self._root / f"step-{step:09d}-{now // 10**9}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # every Python call would be an event
            jax.profiler.start_trace(folder, profiler_options=options)
        except Exception as err:
            _log.warning("profile of step %d: %s", step, err)
            self._steps = range(0)
            return
        self._folder = folder
        self._info = _Info(self._run, step, self._steps[-1], now)

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Mark the body of a `with` as a step, if a profile is being taken."""
        if self._folder is None:
            yield
            return
        with jax.profiler.TraceAnnotation(CLOCK, unix_ns=time.time_ns()):
            pass
        with jax.profiler.StepTraceAnnotation(STEP, step_num=step):
            yield

    def ends(self, step: int) -> bool:
        """Return whether the profile ends behind `step`; the call after it is `stop`."""
        return self.active and step >= self._steps[-1]

    def stop(self) -> Path | None:
        """End the profile, if one is being taken; return its folder."""
        folder, info = self._folder, self._info
        self._folder = self._info = None
        if folder is None or info is None:
            return None
        try:
            jax.profiler.stop_trace()
            info.stopped_unix_ns = time.time_ns()
            (folder / _INFO).write_text(json.dumps(asdict(info), indent=1) + "\n")
            self._prune()
        except Exception as err:
            _log.warning("profile %s: %s", folder, err)
            return None
        _log.info("profile of steps %d..%d is in %s", info.first, info.final, folder)
        return folder

    def _prune(self) -> None:
        """Delete all but the newest profiles."""
        mine = sorted(self._root.glob("step-*-*"), key=lambda p: int(p.name.rsplit("-", 1)[1]))
        for old in mine[: -self._keep]:
            shutil.rmtree(old, ignore_errors=True)
