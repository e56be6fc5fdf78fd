"""Whether somebody sits before this Python: a notebook, another IPython, or nobody at all."""

from __future__ import annotations

import sys


def shell() -> object | None:
    """The running IPython shell; None in a plain script. Never imports IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_notebook() -> bool:
    """Whether a front end that draws HTML is listening."""
    return hasattr(shell(), "kernel")
