"""Log a run's steps from outside: `python -m headrace.trackers KIND[,KIND] --run NAME < steps`.

Reads the steps that `headrace ui` serves at /api/runs/RUN/steps, as they are::

    curl -s -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8900/api/runs/lake/steps |
        python -m headrace.trackers wandb --run lake

Steps that the tracker has already are left out, so it may be said again while the run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.trackers.base import KINDS, Experiment, TrackerError, open_tracker
from headrace.trackers.tracking import Tracking

_NAMES = {"reward": "reward_mean"}
"""Columns that have another name there."""
_LEFT_OUT = {"step", "at", "committed", "metrics"}


def steps(columns: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the committed steps of the columns, with their metrics."""
    plain = {_NAMES.get(k, k): v for k, v in columns.items() if k not in _LEFT_OUT}
    plain |= columns.get("metrics") or {}
    for i, step in enumerate(columns["step"]):
        if not columns["committed"][i]:
            continue
        m = {k: v[i] for k, v in plain.items() if v is not None and i < len(v)}
        m["seconds"] = (m.get("train_seconds") or 0) + (m.get("wait_seconds") or 0)
        if m["seconds"] and m.get("tokens"):
            m["tokens_per_second"] = m["tokens"] / m["seconds"]
        yield int(step), m


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    p = argparse.ArgumentParser(prog="python -m headrace.trackers", description=__doc__)
    p.formatter_class = argparse.RawDescriptionHelpFormatter
    p.add_argument("kinds", help=f"trackers, with commas: {', '.join(KINDS)}")
    p.add_argument("--run", required=True, help="name of the run there")
    p.add_argument("--project", default="headrace")
    p.add_argument("--folder", type=Path, default=Path("trackers"), help="for the trackers' files")
    args = p.parse_args(argv)
    try:
        columns = json.load(sys.stdin)["columns"]
        experiment = Experiment(args.project, args.run, args.folder)
        opened = [(k, open_tracker(k, experiment)) for k in args.kinds.split(",")]
        tracking = Tracking(opened, waiting=0)
        for step, metrics in steps(columns):
            tracking.log(step, metrics, step)
        tracking.close(timeout_s=None)
    except TrackerError as err:
        print(f"headrace.trackers: {err}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, IndexError) as err:
        print(f"headrace.trackers: standard input has no steps of a run: {err!r}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
