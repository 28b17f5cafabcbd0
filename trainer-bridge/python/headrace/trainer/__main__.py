"""Command line of the trainer: `python -m headrace.trainer --feed ADDRESS`.

Exit codes: 0 done or stopped by SIGTERM after a checkpoint, 1 failed, 2 wrong usage or settings, 3
the bridge is gone (start it again: it goes on from its checkpoint).
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.trainer.loop import Stop

log = logging.getLogger("headrace.trainer")


def main(argv: list[str] | None = None) -> int:
    """Run the trainer; returns the exit code."""
    started_ns = time.monotonic_ns()
    args = _parse(argv)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    _prepare_jax()
    from headrace.errors import Disconnected, FeedError
    from headrace.trainer import loop

    stop = loop.Stop()
    _listen(stop, args.exit_with_parent)
    try:
        loop.run(args.feed, stop, args.checkpoints, started_ns)
    except Disconnected as err:
        log.error("feed lost: %s", err)
        return 3
    except (ValueError, loop.TrainingError) as err:
        log.error("%s", err)
        return 2
    except (FeedError, OSError) as err:
        log.error("%s", err)
        return 1
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="python -m headrace.trainer", description=__doc__)
    feed = os.environ.get("HEADRACE_FEED")
    p.add_argument(
        "--feed",
        required=not feed,
        default=feed,
        metavar="ADDRESS",
        help="unix:/path or tcp:host:port (default: HEADRACE_FEED, which headrace bridge sets)",
    )
    p.add_argument(
        "--checkpoints",
        metavar="DIR",
        default=os.environ.get("HEADRACE_CHECKPOINTS"),
        help="where to look for a checkpoint first (default: checkpoints beside the socket)",
    )
    p.add_argument(
        "--exit-with-parent", action="store_true", help="stop when standard input is closed"
    )
    return p.parse_args(argv)


def _prepare_jax() -> None:
    """Set what JAX reads when it is imported, unless the user did."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    if cache := os.environ.get("HEADRACE_JAX_CACHE"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _listen(stop: Stop, stdin: bool) -> None:
    """Turn SIGTERM, SIGINT and, if asked for, the end of standard input into a stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if stdin:
        threading.Thread(target=_wait_for_eof, args=(stop,), daemon=True).start()


def _wait_for_eof(stop: Stop) -> None:
    while os.read(0, 4096):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
