"""The engine's HTTP face: the part of SGLang's API that rollouts and weight updates need.

It sits on aiohttp's low-level server, without its router and middlewares: a request of a small
model takes less time on the device than in those.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

import headrace
from headrace.engine.core import Engine
from headrace.engine.generate import Generation, dumps
from headrace.engine.metrics import Throughput, render
from headrace.engine.request import BadRequestError
from headrace.weights import WeightsError

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
log = logging.getLogger("headrace.engine")
_MODES = ("abort", "retract", "in_place")
_BODY_LIMIT_BYTES = 64 << 20


def _json(obj: object, status: int = 200) -> web.Response:
    return web.Response(body=dumps(obj).encode(), status=status, content_type="application/json")


def _error(message: str, status: int) -> web.Response:
    return _json({"error": message}, status)


async def _body(http: web.BaseRequest) -> dict[str, Any]:
    """Read a JSON object; an empty body is an empty object."""
    data = await http.read()
    try:
        obj = json.loads(data) if data else {}
    except (ValueError, RecursionError) as e:
        raise BadRequestError(f"the body is not JSON: {e}") from e
    if not isinstance(obj, dict):
        raise BadRequestError("the body must be a JSON object")
    return obj


class API:
    """Routes and handlers for one engine."""

    def __init__(self, engine: Engine, model_path: str) -> None:
        self._engine = engine
        self._model_path = model_path
        self._throughput = Throughput()
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "/generate"): self._generate,
            ("POST", "/abort_request"): self._abort,
            ("POST", "/update_weights_from_disk"): self._update_weights,
            ("POST", "/pause_generation"): self._pause,
            ("POST", "/continue_generation"): self._continue,
            ("POST", "/flush_cache"): self._flush,
            ("GET", "/flush_cache"): self._flush,
            ("GET", "/health"): self._health,
            ("GET", "/health_generate"): self._health_generate,
            ("GET", "/model_info"): self._model_info,
            ("GET", "/get_model_info"): self._model_info,
            ("GET", "/get_server_info"): self._server_info,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/headrace/batches"): self._batches,
        }

    def server(self) -> web.Server:
        """Return the low-level server; a client that disconnects cancels its handler."""

        def request(*args: Any) -> web.BaseRequest:
            message, payload, protocol, writer, task = args
            return web.BaseRequest(
                message,
                payload,
                protocol,
                writer,
                task,
                protocol._loop,
                client_max_size=_BODY_LIMIT_BYTES,
            )

        return web.Server(
            self._handle, request_factory=request, handler_cancellation=True, access_log=None
        )

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        handler = self._routes.get((http.method, http.path))
        if handler is None:
            known = any(path == http.path for _, path in self._routes)
            return _error(f"{http.method} {http.path} is not served", 405 if known else 404)
        try:
            return await handler(http)
        except BadRequestError as e:
            return _error(str(e), 400)
        except web.HTTPException as e:
            return _error(e.reason, e.status)
        except ConnectionResetError:
            raise
        except Exception as e:
            log.exception("%s %s", http.method, http.path)
            return _error(f"internal error: {e}", 500)

    async def _generate(self, http: web.BaseRequest) -> web.StreamResponse:
        body = await _body(http)
        if self._engine.served is None:
            return _error("no weights", 503)
        generation = Generation(self._engine, body)
        if not body.get("stream", False):
            return _json(await generation.finished())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        events = generation.events()
        try:
            await response.prepare(http)
            async for event in events:
                await response.write(event)
        finally:
            await events.aclose()
            generation.abandon()
        return response

    async def _abort(self, http: web.BaseRequest) -> web.Response:
        body = await _body(http)
        rid = body.get("rid")
        if not body.get("abort_all", False) and not (isinstance(rid, str) and rid):
            raise BadRequestError("give a rid, or abort_all")
        count = self._engine.abort(None if body.get("abort_all", False) else rid)
        return _json({"success": True, "num_aborted_requests": count})

    async def _update_weights(self, http: web.BaseRequest) -> web.Response:
        body = await _body(http)
        path, version = body.get("model_path"), body.get("weight_version", "default")
        if not isinstance(path, str) or not path:
            raise BadRequestError("model_path is missing")
        if isinstance(version, bool) or not isinstance(version, str | int):
            raise BadRequestError("weight_version must be a string")
        if body.get("abort_all_requests", False):
            self._engine.abort(None, "weights are being updated")
        try:
            served = await self._engine.load(path, str(version))
        except WeightsError as e:
            return _json({"success": False, "message": str(e), "num_paused_requests": 0}, 400)
        held = len(self._engine.scheduler.live()) if self._engine.paused else 0
        return _json(
            {
                "success": True,
                "message": "Succeeded to update model weights.",
                "num_paused_requests": held,
                "weight_version": served.version,
                "sha256": served.sha256,
            }
        )

    async def _pause(self, http: web.BaseRequest) -> web.Response:
        mode = (await _body(http)).get("mode", "abort")
        if mode not in _MODES:
            raise BadRequestError(f"mode must be one of {', '.join(_MODES)}")
        await self._engine.pause(mode)
        return _json({"status": "ok", "message": f"Generation paused ({mode})."})

    async def _continue(self, http: web.BaseRequest) -> web.Response:
        await _body(http)
        self._engine.resume()
        return _json({"status": "ok", "message": "Generation continued."})

    async def _flush(self, http: web.BaseRequest) -> web.Response:
        if await self._engine.flush():
            return web.Response(text="Cache flushed.\n")
        return web.Response(text="Cache not flushed: requests are running.\n", status=400)

    async def _health(self, http: web.BaseRequest) -> web.Response:
        return _json({"status": "ok"})

    async def _health_generate(self, http: web.BaseRequest) -> web.Response:
        reason = self._engine.unready()
        if reason is None:
            return _json({"status": "ok"})
        return _json({"status": "unready", "error": reason}, 503)

    async def _model_info(self, http: web.BaseRequest) -> web.Response:
        engine, served = self._engine, self._engine.served
        return _json(
            {
                "model_path": served.path if served else self._model_path,
                "is_generation": True,
                "weight_version": served.version if served else None,
                "sha256": served.sha256 if served else None,
                "vocab_size": engine.cfg.vocab_size,
                "max_context": engine.sizes.context,
            }
        )

    async def _server_info(self, http: web.BaseRequest) -> web.Response:
        engine, sizes, served = self._engine, self._engine.sizes, self._engine.served
        scheduler = engine.scheduler
        return _json(
            {
                "version": f"headrace-{headrace.__version__}",
                "model_path": self._model_path,
                "weight_version": served.version if served else None,
                "context_length": sizes.context,
                "max_running_requests": sizes.slots,
                "max_total_num_tokens": sizes.slots * sizes.context,
                "chunked_prefill_size": sizes.chunk,
                "row_buckets": list(sizes.rows),
                "device_steps": sizes.steps,
                "paused": engine.paused,
                "unready": engine.unready(),
                "num_running_reqs": len(scheduler.running),
                "num_queue_reqs": len(scheduler.waiting),
            }
        )

    async def _metrics(self, http: web.BaseRequest) -> web.Response:
        text = render(self._engine, self._throughput, self._model_path)
        return web.Response(text=text, content_type="text/plain")

    async def _batches(self, http: web.BaseRequest) -> web.Response:
        after, boot = http.query.get("after", "0"), http.query.get("boot", "")
        if not after.isdecimal() or len(after) > 18:
            raise BadRequestError("after must be a number")
        return _json(self._engine.trail.since(int(after), boot))
