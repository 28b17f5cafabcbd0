"""A producer of the Redis line: XADD of each trajectory as it finishes, or pipelined.

Usage: redis_producer.py JOB. Says {} when connected, then the time of its first publish.
"""

from __future__ import annotations

import json
import sys
import time

import check
import redis


def main() -> None:
    """Publish this producer's part of the groups."""
    job = json.loads(sys.argv[1])
    ids, mask, logprobs = check.base(job["length"])
    mask, logprobs = mask.tobytes(), logprobs.tobytes()
    server = redis.Redis(port=job["port"])
    server.ping()
    print("{}", flush=True)
    sys.stdin.readline()
    out = {"began": time.time_ns(), "batches": []}
    depth = max(1, job["pipeline"] // 8)  # whole groups in a pipeline
    mine = range(job["index"], job["groups"], job["producers"])
    for n in range(0, len(mine), depth):
        if job["pace"]:
            due = out["began"] + (n + 1) * 1e9 / job["pace"]
            time.sleep(max(0.0, (due - time.time_ns()) / 1e9))
        pipe = server.pipeline(transaction=False) if job["pipeline"] else server
        for group in mine[n : n + depth]:
            for slot in range(8):
                row = ids.copy()
                row[:2] = group, slot
                fields = {"g": group, "s": slot, "r": slot % 2, "ids": row.tobytes()}
                pipe.xadd("rollouts", fields | {"mask": mask, "lp": logprobs})
        if job["pace"] and (n + 1) % job["groups_per_batch"] == 0:
            out["batches"].append(time.time_ns())
        if job["pipeline"]:
            pipe.execute()
    print(json.dumps(out), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
