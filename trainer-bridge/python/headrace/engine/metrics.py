"""Figures of the engine as Prometheus text, under the names that SGLang gives them."""

from __future__ import annotations

import time

from headrace.engine.core import Engine


class Throughput:
    """Tokens per second between the last two times somebody asked, at least a second apart."""

    def __init__(self) -> None:
        self._at, self._tokens, self._rate = time.monotonic(), 0, 0.0

    def read(self, tokens: int) -> float:
        """Return the rate, given the total number of tokens so far."""
        now = time.monotonic()
        if now - self._at >= 1:
            self._rate = (tokens - self._tokens) / (now - self._at)
            self._at, self._tokens = now, tokens
        return self._rate


def render(engine: Engine, throughput: Throughput, model_name: str) -> str:
    """Return the metrics page."""
    s, c = engine.scheduler, engine.scheduler.counters
    running, queued = len(s.running), len(s.waiting)
    usage = s.used_tokens() / (engine.sizes.slots * engine.sizes.context)
    rows: list[tuple[str, str, str, float]] = [
        ("sglang:num_running_reqs", "gauge", "Requests that hold a slot.", running),
        ("sglang:num_queue_reqs", "gauge", "Requests that wait for a slot.", queued),
        ("sglang:token_usage", "gauge", "Part of the cache that running requests fill.", usage),
        (
            "sglang:cache_hit_rate",
            "gauge",
            "Prompt tokens found in the cache, of all so far.",
            c.cached_tokens / max(c.prompt_tokens, 1),
        ),
        (
            "sglang:gen_throughput",
            "gauge",
            "Tokens sampled per second.",
            throughput.read(c.generated_tokens),
        ),
        ("sglang:num_requests_total", "counter", "Requests received.", c.requests),
        ("sglang:num_aborted_requests_total", "counter", "Requests aborted.", c.aborted),
        ("sglang:num_retracted_reqs", "counter", "Requests retracted.", c.retracted),
        ("sglang:prompt_tokens_total", "counter", "Prompt tokens answered.", c.prompt_tokens),
        ("sglang:cached_tokens_total", "counter", "Of those, found cached.", c.cached_tokens),
        ("sglang:generation_tokens_total", "counter", "Tokens sampled.", c.generated_tokens),
        ("headrace:paused", "gauge", "1 while generation is paused.", float(engine.paused)),
        ("headrace:device_calls_total", "counter", "Device calls.", c.calls),
        ("headrace:device_seconds_total", "counter", "Seconds in them.", engine.device_seconds),
        ("headrace:device_rows_total", "counter", "Rows of device calls in use.", c.rows),
        ("headrace:device_row_capacity_total", "counter", "Rows in all.", c.row_capacity),
    ]
    label = model_name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines: list[str] = []
    for name, kind, text, value in rows:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines.append(f'{name}{{model_name="{label}"}} {float(value):.10g}')
    return "\n".join(lines) + "\n"
