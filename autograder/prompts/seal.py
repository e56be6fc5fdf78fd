"""Covers a prompt's outcome, so that it does not lie in a page's or a file's text in clear. A cover, not a lock.

Whoever wants to can lift it: the page must be able to show the outcome without a server. `question.mjs` has the same.
"""

from __future__ import annotations

import base64
import json


def seal(id: str, content: object) -> str:
    """The content as base64 text, covered by a stream of bytes that follows from the prompt's id."""
    raw = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(bytes(a ^ b for a, b in zip(raw, _stream(id, len(raw)), strict=True))).decode()


def unseal(id: str, sealed: str) -> object:
    """The inverse of `seal`."""
    raw = base64.b64decode(sealed)
    return json.loads(bytes(a ^ b for a, b in zip(raw, _stream(id, len(raw)), strict=True)))


def _stream(id: str, length: int) -> bytes:
    """FNV-1a of the id, then Marsaglia's 32-bit xorshift (13, 17, 5): small, and easy to write again in JavaScript."""
    state = 2166136261
    for byte in id.encode():
        state = ((state ^ byte) * 16777619) % 2**32
    state = state or 1
    out = bytearray()
    for _ in range(length):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        out.append(state & 0xFF)
    return bytes(out)
