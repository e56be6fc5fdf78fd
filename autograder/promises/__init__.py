"""What holds for right work, sentence by sentence. Each promise is judged by itself, on a transcript's row and the row before."""

from autograder.promises.base import Broken, Promise, page

__all__ = ["Broken", "Promise", "page"]
