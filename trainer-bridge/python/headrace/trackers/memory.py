"""What of a run a tracker has, where the tracker itself cannot be asked."""

from __future__ import annotations

import json
import secrets
from pathlib import Path


class Memory:
    """A small file: the id under which the tracker knows the run, and the last step it has."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.id, self.last_step = secrets.token_hex(6), 0
        if path.exists():
            try:
                known = json.loads(path.read_text())
                self.id, self.last_step = str(known["id"]), int(known["last_step"])
            except (ValueError, KeyError, TypeError) as err:
                raise ValueError(f"{path} cannot be read ({err}): move it away") from err
        self._write()

    def logged(self, step: int) -> None:
        """Remember that the tracker has a step."""
        self.last_step = step
        self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"id": self.id, "last_step": self.last_step}))
        part.replace(self._path)
