"""The widgets in a real JupyterLab 4 and Notebook 7: they mount, answer, drive the learner's own class, and complain of nothing."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from conftest import ROOT

pytest.importorskip("jupyterlab", reason="needs JupyterLab; `make setup` installs it")
pytest.importorskip("notebook", reason="needs Notebook 7; `make setup` installs it")

CLASS = '''
class Mine:
    """Allocates, and forgets to raise counts in a fork."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free, self.ref, self.seqs = list(range(num_blocks)), {}, {}

    def allocate(self, name, n_tokens):
        need = -(-n_tokens // self.block_size)
        if need > len(self.free):
            raise MemoryError
        taken, self.free = self.free[:need], self.free[need:]
        self.ref.update(dict.fromkeys(taken, 1))
        self.seqs[name] = {"blocks": taken, "len": n_tokens}

    def fork(self, parent, child):
        self.seqs[child] = {"blocks": list(self.seqs[parent]["blocks"]), "len": self.seqs[parent]["len"]}

    def append(self, name):
        raise NotImplementedError

    def release(self, name):
        raise NotImplementedError

    def used(self):
        return self.num_blocks - len(self.free)
'''
CELLS = [
    f"from autograder import check, predict, predicted, simulate\n{CLASS}", "simulate.contiguous()", "simulate.prefix()", "simulate.pool(Mine, 10, 16, key='yours')",
    "simulate.beams()", "simulate.history('double-free')", "predict('boundary')", "check('03_copy_on_write/BlockManager', Mine)",
]  # fmt: skip
# JupyterLab's own: lookups of settings that there are none of, and a command that is asked for before it is there.
NOISE = ("favicon", "the server responded with a status of 404", "reading 'schema'", "'filebrowser:open-path' not registered")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Jupyter server of this interpreter's, for this machine alone; gives (address, token)."""
    folder = tmp_path_factory.mktemp("jupyter")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS], metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})
    for name in ("lab", "notebook"):
        (folder / name).mkdir()
        nbformat.write(notebook, folder / name / "widgets.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    words = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}",
        f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    own = {name: str(folder / "home") for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    with open(folder / "log", "w") as log:
        started = subprocess.Popen(words, cwd=folder, env={**os.environ, **own, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api", timeout=2):
            break
        assert started.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.1)
    yield address, token
    started.terminate()
    started.wait(20)


@pytest.mark.parametrize(("front", "path"), [("lab", "lab/tree"), ("notebook", "notebooks")])
def test_every_widget_mounts_answers_and_complains_of_nothing(browser, server, front, path):
    address, token = server
    complaints = []
    with contextlib.closing(browser.new_context(viewport={"width": 1400, "height": 5000})) as context:
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/{path}/{front}/widgets.ipynb?token={token}{'&reset' if front == 'lab' else ''}")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").first.wait_for()
        page.get_by_text("Idle").or_(page.locator("[title*=Idle], [data-status=idle]")).first.wait_for()
        page.locator(".jp-Notebook .jp-CodeCell").first.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()

        for title in ("One stream of requests, two pools", "Requests that start with the same text", "A beam search over the pool"):
            page.locator(".jp-OutputArea .kv-lab").get_by_text(title).first.wait_for()
        assert page.locator(".jp-OutputArea .kv-lab").count() == 5

        # The reader's own class answers each press, and the picture stops at the promise that it breaks.
        yours = page.locator(".jp-OutputArea .kv-lab-pool").first
        yours.get_by_role("button", name="allocate A", exact=True).click()
        yours.get_by_role("button", name="fork A into B", exact=True).click()
        yours.get_by_text("A fork raises the count of each of the parent's blocks by 1").first.wait_for()

        # A prediction is committed and kept by Python.
        asked = page.locator(".jp-OutputArea .kv-question")
        for number, field in enumerate(asked.get_by_role("textbox").or_(asked.get_by_role("spinbutton")).all()):
            field.fill(str((2, 2, 3)[number]))
        asked.get_by_role("button", name="Commit my prediction").click()
        asked.get_by_text("2, after 12 more 2", exact=False).first.wait_for()

        # The card of a check.
        page.locator(".jp-OutputArea").get_by_text("BlockManager", exact=False).last.wait_for()
    assert [said for said in complaints if not any(words in said for words in NOISE)] == []
