"""How LLM servers keep their KV cache in pages: the checks, drawings and simulators of the course.

`predict` and `ask` put a question, `check(exercise, object)` judges a learner's work, `draw` pictures it.
Importing needs the standard library alone.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["ask", "check", "draw", "predict", "predicted", "predictions", "simulate"]


def __getattr__(name: str) -> object:
    # Loaded on use: the page and the grader want a fast start.
    if name == "check":
        from autograder.checks import check

        return check
    if name in ("ask", "predict", "predicted", "predictions"):
        from autograder import prompts

        return getattr(prompts, name)
    if name in ("draw", "checks", "exercises", "promises", "simulate"):
        import importlib

        return importlib.import_module(f"autograder.{name}")
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
