"""A run's numbers in the experiment tracker you already have, under names you already know.

Two lines for a training loop of your own::

    with headrace.connect("unix:/run/x/feed.sock") as feed:
        headrace.trackers.attach(feed, ["wandb", "tensorboard"])
        for batch in feed:
            ...
            feed.commit(batch.step, {"loss": loss})

From then on each commit is logged with the facts of its batch (reward, lengths, staleness), under
the names of TRL and verl: `headrace.trackers.names` says which. The reference trainer does it when
its recipe has `trainer.trackers`.

A tracker is `log(step, metrics, version)` and little else. Logging runs beside training, never
holds it up and never ends it. A step is logged once: a trainer that goes on from a checkpoint
trains the same steps again, and what the tracker has already is left out.
"""

from headrace.trackers.base import KINDS, Tracker, TrackerError, open_tracker
from headrace.trackers.facts import batch_facts
from headrace.trackers.names import rename
from headrace.trackers.tracking import Tracking, attach, chosen

__all__ = [
    "KINDS",
    "Tracker",
    "TrackerError",
    "Tracking",
    "attach",
    "batch_facts",
    "chosen",
    "open_tracker",
    "rename",
]
