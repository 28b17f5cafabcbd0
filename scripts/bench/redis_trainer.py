"""The trainer of the Redis line: a consumer group, grouping and assembly of numpy arrays.

Usage: redis_trainer.py JOB. Says {} when connected, then an object with the time of each batch.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict

import check
import numpy as np
import redis

COUNT = 256  # entries of one read: more did not help


def assemble(rows: list[tuple[bytes, dict[bytes, bytes]]], length: int) -> tuple[np.ndarray, ...]:
    """Return ids (i4), mask (u1), logprobs (f4) [rows, length] and rewards (f4) [rows]."""
    ids = np.zeros((len(rows), length), "<i4")
    mask = np.zeros((len(rows), length), "u1")
    logprobs = np.zeros((len(rows), length), "<f4")
    rewards = np.zeros(len(rows), "<f4")
    for i, (_, fields) in enumerate(rows):
        row = np.frombuffer(fields[b"ids"], "<i4")
        ids[i, : len(row)] = row
        mask[i, : len(row)] = np.frombuffer(fields[b"mask"], "u1")
        logprobs[i, : len(row)] = np.frombuffer(fields[b"lp"], "<f4")
        rewards[i] = float(fields[b"r"])
    return ids, mask, logprobs, rewards


def main() -> None:
    """Take all groups of the job."""
    job = json.loads(sys.argv[1])
    length, rows = job["length"], job["groups_per_batch"] * 8
    server = redis.Redis(port=job["port"])
    server.xgroup_create("rollouts", "trainer", id="0", mkstream=True)
    counted = check.Groups(job)
    times: list[int] = []
    first = last = None
    groups: defaultdict[bytes, list] = defaultdict(list)
    ready: list = []
    print("{}", flush=True)
    sys.stdin.readline()
    while not counted.complete():
        answer = server.xreadgroup("trainer", "t", {"rollouts": ">"}, count=COUNT, block=10000)
        for entry in answer[0][1] if answer else ():
            group = groups[entry[1][b"g"]]
            group.append(entry)
            if len(group) < 8:
                continue
            ready += groups.pop(entry[1][b"g"])
            if len(ready) < rows:
                continue
            ids, mask, logprobs, _ = assemble(ready, length)
            times.append(time.time_ns())
            counted.add(ids[:, 0], ids[:, 1])
            first = first or (ids, mask, logprobs)
            last = ids, mask, logprobs
            server.xack("rollouts", "trainer", *(e[0] for e in ready))
            ready = []
    counted.finish()
    check.contents(length, first)
    check.contents(length, last)
    print(json.dumps({"times": times, "took": [], "touched": []}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
