"""MLflow: one run of an experiment, found again by its tag.

MLFLOW_TRACKING_URI says which server; without it the numbers go to a SQLite file below the
experiment's folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]
from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

from headrace.trackers.base import Experiment
from headrace.trackers.names import X_STEP

_TAG = "headrace.run"
_BATCH = 1000
"""Metrics that MLflow takes at once."""


class MLflow:
    """A run of MLflow."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self._run = client, run_id
        history = client.get_metric_history(run_id, X_STEP)
        self.last_step = max((m.step for m in history), default=0)

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        """Log a step, the step's own number last: it says that the rest is there."""
        now = int(time.time() * 1000)
        names = sorted(metrics, key=lambda k: (k == X_STEP, k))
        rows = [Metric(_plain(k), metrics[k], now, step) for k in names]
        for at in range(0, len(rows), _BATCH):
            self._client.log_batch(self._run, metrics=rows[at : at + _BATCH])

    def close(self) -> None:
        """Say that nothing more comes for now."""
        self._client.set_terminated(self._run)


def _plain(name: str) -> str:
    """MLflow's names have fewer characters."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)


def open_(experiment: Experiment) -> MLflow:
    """Begin the run, or find the one that is there."""
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        experiment.folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{experiment.folder.absolute()}/mlflow.db"
    client = MlflowClient(uri)
    project = os.environ.get("MLFLOW_EXPERIMENT_NAME") or experiment.project
    known = client.get_experiment_by_name(project)
    id_ = known.experiment_id if known else client.create_experiment(project)
    name = experiment.run.replace("'", "")
    found = client.search_runs([id_], f"tags.`{_TAG}` = '{name}'", max_results=1)
    if found:
        client.update_run(found[0].info.run_id, status="RUNNING")
        return MLflow(client, found[0].info.run_id)
    run = client.create_run(id_, run_name=experiment.run, tags={_TAG: name})
    params = [Param(k, str(v)[:500]) for k, v in _flat(experiment.config)]
    client.log_batch(run.info.run_id, params=params[:100])
    return MLflow(client, run.info.run_id)


def _flat(config: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    out: list[tuple[str, object]] = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            out += _flat(value, f"{above}{key}.")
        else:
            out.append((f"{above}{key}", value))
    return out
