"""The trainer's end of the benchmark: batches of the feed as numpy arrays, checked and given back.

Usage: trainer.py JOB. Says {} when connected, then one JSON object with the time of each batch.
"""

from __future__ import annotations

import json
import sys
import time

import check
import headrace
import numpy as np


def main() -> None:
    """Take all batches of the job."""
    job = json.loads(sys.argv[1])
    length, rows = job["length"], job["groups_per_batch"] * 8
    counted = check.Groups(job)
    times, took, touched = [], [], []
    first = last = None
    with headrace.connect(job["feed"]) as feed:
        if job["telemetry"] == "off":
            feed.spans.room = 0
        print("{}", flush=True)
        sys.stdin.readline()
        for step in range(1, job["groups"] // job["groups_per_batch"] + 1):
            if job["settle"] or job["work"]:
                time.sleep(job["settle"] + job["work"])
            begun = time.perf_counter()
            batch = feed.next()
            ids, mask, logprobs = batch.tokens, batch.loss_mask, batch.logprobs
            took.append(time.perf_counter() - begun)
            times.append(time.time_ns())
            if batch.step != step or ids.shape != (rows, length):
                raise SystemExit(f"batch of step {batch.step}, shape {ids.shape}; want {step}")
            if job["settle"]:
                arrays = (ids, logprobs, batch.versions)
                begun = time.perf_counter()
                [int(np.add.reduce(a.view("<i4"), axis=None)) for a in arrays]
                touched.append(time.perf_counter() - begun)
            counted.add(ids[:, 0], ids[:, 1])
            if first is None:
                first = ids.copy(), mask.copy(), logprobs.copy()
            if counted.complete():
                last = ids.copy(), mask.copy(), logprobs.copy()
            feed.commit(step, tokens=batch.token_count)
            del ids, mask, logprobs
            batch.release()
        counted.finish()
        check.contents(length, first)
        check.contents(length, last)
        print(json.dumps({"times": times, "took": took, "touched": touched}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
