"""Command line of the engine: `python -m headrace.engine --model-path DIR`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

# Many small operations lose more to a thread pool than they win, and the machine is shared.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

log = logging.getLogger("headrace.engine")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    p = argparse.ArgumentParser(prog="python -m headrace.engine", description=__doc__)
    model = os.environ.get("HEADRACE_MODEL")
    p.add_argument(
        "--model-path",
        required=not model,
        default=model,
        type=Path,
        metavar="DIR",
        help="folder with config.json (default: HEADRACE_MODEL, which headrace engine sets); "
        "weights there are served from the start",
    )
    p.add_argument("--weight-version", default="default", help="version of the weights found there")
    p.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    p.add_argument("--port", type=int, default=30000, help="port; 0 takes a free one")
    p.add_argument("--port-file", type=Path, metavar="FILE", help="file to write the port to")
    slots = os.environ.get("HEADRACE_SLOTS", "256")
    p.add_argument(
        "--slots",
        type=int,
        default=slots,
        help="sequences kept in the cache (default: HEADRACE_SLOTS, or 256)",
    )
    p.add_argument("--context", type=int, help="tokens of prompt and completion (default: model's)")
    p.add_argument("--chunk", type=int, default=48, help="prompt tokens per device call")
    p.add_argument("--device-steps", type=int, default=8, help="tokens sampled per device call")
    p.add_argument("--max-rows", type=int, default=64, help="sequences per device call")
    p.add_argument(
        "--exit-with-parent", action="store_true", help="end when standard input is closed"
    )
    args = p.parse_args(argv)
    for name in ("slots", "chunk", "device_steps", "max_rows"):
        if getattr(args, name) < 1:
            p.error(f"--{name.replace('_', '-')} must be positive")
    return args


def row_buckets(most: int) -> tuple[int, ...]:
    """Return the row counts to compile: 8, 32, then doubling up to `most`."""
    buckets = [b for b in (8, 32) if b < most]
    while buckets and buckets[-1] >= 32 and buckets[-1] * 2 < most:
        buckets.append(buckets[-1] * 2)
    return (*buckets, most)


async def serve(args: argparse.Namespace) -> None:
    """Run the engine until SIGTERM, SIGINT or, if asked for, the end of standard input."""
    from aiohttp import web

    from headrace.engine.batch import Sizes
    from headrace.engine.core import Engine
    from headrace.engine.server import API
    from headrace.model import ModelConfig
    from headrace.weights import MODEL

    cfg = ModelConfig.read(args.model_path)
    rows = row_buckets(min(args.max_rows, args.slots))
    context = args.context or cfg.max_context
    sizes = Sizes(args.slots, context, rows, min(args.chunk, context), args.device_steps)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sig, stop.set)
    if args.exit_with_parent:
        watch_stdin(loop, stop)
    engine = Engine(cfg, sizes)
    runner = web.ServerRunner(API(engine, str(args.model_path)).server(), shutdown_timeout=1)
    await runner.setup()
    running = asyncio.create_task(engine.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        site = web.TCPSite(runner, args.host, args.port)
        await site.start()
        port = runner.addresses[0][1]
        if args.port_file:
            write_atomically(args.port_file, f"{port}\n")
        log.info("listening on %s:%d", args.host, port)
        if (args.model_path / MODEL).exists():
            await engine.load(str(args.model_path), args.weight_version)
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        engine.abort(None, "the engine is shutting down")
        await runner.cleanup()
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running  # raises what it died of


def watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set `stop` once standard input ends, as it does when the parent dies."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: we are ending anyway
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait, name="stdin", daemon=True).start()


def write_atomically(path: Path, text: str) -> None:
    """Make a file appear with its whole content."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def main() -> None:
    """Run and exit: 0 after a signal, 1 with one line on stderr if it could not run."""
    args = parse()
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s engine: %(message)s", stream=sys.stderr
    )
    code = 0
    try:
        if cache := os.environ.get("HEADRACE_JAX_CACHE"):
            import jax

            jax.config.update("jax_compilation_cache_dir", cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        asyncio.run(serve(args))
    except (ValueError, OSError) as e:
        log.error("%s", e)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a compilation under way in a thread must not hold the exit up


if __name__ == "__main__":
    main()
