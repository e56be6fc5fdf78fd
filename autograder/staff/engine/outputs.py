"""Outputs as a fork sends them, made into outputs that a notebook may hold: known kinds, text that is text, bounded."""

from __future__ import annotations

import re

MOST = 1000
JSON_KIND = re.compile(r"application/(.*\+)?json")  # the only kinds whose data is more than text
LONGEST_NAME = 200


def clean(given: object, printable_kb: int, displayable_kb: int) -> list[dict]:
    """The valid ones of what came, up to the limits."""
    if not isinstance(given, list):
        return []
    kept = [made for output in given[:MOST] if isinstance(output, dict) and (made := _clean(output)) is not None]
    left = {"stream": printable_kb * 1024 + 200}
    result = []
    for output in kept:
        kind = "stream" if output["output_type"] == "stream" else "other"
        left[kind] = left.get(kind, displayable_kb * 1024) - _size(output)
        if left[kind] >= 0:
            result.append(output)
    return result


def error(name: str, value: str) -> dict:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": [value]}


def _clean(output: dict) -> dict | None:
    kind = output.get("output_type")
    if kind == "stream":
        return {"output_type": kind, "name": "stderr" if output.get("name") == "stderr" else "stdout", "text": text(output.get("text"))}
    if kind == "error":
        lines = output.get("traceback") if isinstance(output.get("traceback"), list) else []
        return {
            "output_type": kind, "ename": text(output.get("ename"))[:LONGEST_NAME], "evalue": text(output.get("evalue")),
            "traceback": [text(line) for line in lines[:MOST]],
        }  # fmt: skip
    if kind in ("display_data", "execute_result"):
        data = output.get("data") if isinstance(output.get("data"), dict) else {}
        metadata = output.get("metadata") if isinstance(output.get("metadata"), dict) else {}
        shown = {text(k): plain(v) for k, v in data.items() if isinstance(v, str) or JSON_KIND.fullmatch(str(k))}
        made = {"output_type": kind, "data": shown, "metadata": plain(metadata)}
        if kind == "execute_result":
            count = output.get("execution_count")
            made["execution_count"] = count if type(count) is int and 0 < count < 2**31 else None
        return made
    return None


def text(value: object) -> str:
    """A text that UTF-8 holds; anything else as an empty one."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def plain(value: object, depth: int = 20) -> object:
    """JSON data with its texts cleaned; what is nested too deeply is cut off."""
    if isinstance(value, str):
        return text(value)
    if depth <= 0 or value is None or isinstance(value, (bool, int, float)):
        return None if depth <= 0 and isinstance(value, (dict, list)) else value
    if isinstance(value, dict):
        return {text(key): plain(item, depth - 1) for key, item in value.items()}
    return [plain(item, depth - 1) for item in value]


def _size(output: dict) -> int:
    if output["output_type"] == "stream":
        return len(output["text"])
    if output["output_type"] == "error":
        return len(output["evalue"]) + sum(map(len, output["traceback"]))
    return sum(len(value) if isinstance(value, str) else len(str(value)) for value in output["data"].values())
