"""Messages as JSON with four bytes of length in front. The receiver sets the limits: of size, of depth, of time."""

from __future__ import annotations

import json
import os
import select
import struct
import time

HEAD = struct.Struct(">I")


class Ended(Exception):
    """The other side has gone, or what it sent is no message."""


class Late(Exception):
    """Nothing whole came in time."""


def send(fd: int, message: dict) -> None:
    """Write one message; raises Ended if nobody reads any more."""
    body = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()
    view = memoryview(HEAD.pack(len(body)) + body)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as problem:
        raise Ended(str(problem)) from None


class Reader:
    """Whole messages from a pipe whose writer is not trusted."""

    def __init__(self, fd: int, largest: int):
        self.fd, self.largest, self.got = fd, largest, bytearray()

    def receive(self, seconds: float, tick: float | None = None, on_tick=lambda: None) -> dict:
        """The next message. `on_tick` is called every `tick` seconds of waiting, and may raise. Raises Ended or Late."""
        deadline = time.monotonic() + seconds
        while (message := self._message()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late
            if not select.select([self.fd], [], [], min(left, tick or left))[0]:
                on_tick()
                continue
            try:
                part = os.read(self.fd, 1 << 18)
            except ConnectionError:
                part = b""
            if not part:
                raise Ended("the pipe was closed")
            self.got += part
        return message

    def _message(self) -> dict | None:
        if len(self.got) < HEAD.size:
            return None
        (size,) = HEAD.unpack_from(self.got)
        if size > self.largest:
            raise Ended(f"a message of {size} bytes")
        if len(self.got) < HEAD.size + size:
            return None
        body = bytes(self.got[HEAD.size : HEAD.size + size])
        del self.got[: HEAD.size + size]
        try:
            message = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            raise Ended("not a message") from problem
        if not isinstance(message, dict):
            raise Ended("not a message")
        return message


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
