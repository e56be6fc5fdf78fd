"""Packages that only some lessons need, imported on use; where one is missing the learner reads what to do."""

from __future__ import annotations

import importlib
from types import ModuleType

CURE = "In the course's repository `make setup` installs it; elsewhere `pip install {package}` does. It does not run inside a web page."


class Missing(ImportError):
    """A package that a lesson needs is not installed; the text is one sentence with the cure."""


def need(package: str, what: str) -> ModuleType:
    """The package, imported. what: who needs it, for the sentence of `Missing`."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.split(".")[0]:
            raise
        raise Missing(f"{what} needs the package {error.name}, which is not installed. {CURE.format(package=error.name)}") from None
