"""How a submission's cells are run."""

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.staff.kernel import STARTS, ExecuteWithNonce


def graded_notebook():
    cell = nbformat.v4.new_code_cell("print(6 * 7)")
    cell.metadata.nbgrader = {"grade": True, "solution": False, "grade_id": "t", "points": 1, "locked": True, "schema_version": 3, "task": False}
    return nbformat.v4.new_notebook(cells=[cell])


def start_failing(monkeypatch, times):
    """Let the first kernels end before they answer, as when two are given the same port."""
    left = [times]
    real = NotebookClient.start_new_kernel_client

    def start(self, **kwargs):
        if left[0]:
            left[0] -= 1
            self._cleanup_kernel()
            raise RuntimeError("Kernel died before replying to kernel_info")
        return real(self, **kwargs)

    monkeypatch.setattr(NotebookClient, "start_new_kernel_client", start)


def test_a_kernel_that_ends_before_it_answers_is_started_again(monkeypatch):
    start_failing(monkeypatch, 2)
    run, _ = ExecuteWithNonce().preprocess(graded_notebook(), {"metadata": {}})
    assert run.cells[0].outputs[0].text == "42\n"


def test_a_machine_on_which_no_kernel_starts_is_the_graders_trouble(monkeypatch):
    start_failing(monkeypatch, STARTS)
    with pytest.raises(RuntimeError, match="Kernel died"):
        ExecuteWithNonce().preprocess(graded_notebook(), {"metadata": {}})
