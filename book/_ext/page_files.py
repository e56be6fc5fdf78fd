"""What the pages take from npm and from the course's own package: bundled, zipped and copied beside them.

`make setup` brings node_modules. Nothing here reaches out to a network, and the same inputs give the same bytes.
"""

import shutil
import subprocess
import zipfile
from pathlib import Path

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
# Left out of what the browser's Python gets: the instructors' part, and what needs processes and a terminal.
NOT_IN_BROWSER = ("staff/", "cli.py", "child.py", "__main__.py")
CDN = "https://cdn.jsdelivr.net/pyodide/"
LONG_AGO = (1980, 1, 1, 0, 0, 0)    # a zip with today's date would be another one tomorrow


class Missing(Exception):
    """A file that `make setup` brings is not there; the message is one sentence with its cure."""


def modules(root: Path) -> Path:
    """The folder of npm's packages; Missing if a needed one is not in it."""
    folder = root / "node_modules"
    for name in ("pyodide/pyodide.asm.wasm", "@codemirror/view/package.json", "esbuild/package.json"):
        if not (folder / name).is_file():
            raise Missing(f"The pages need npm's {name.split('/')[0]}, which is not in node_modules: `make setup` installs it.")
    return folder


def esbuild(root: Path, *arguments: str) -> None:
    """Run the bundler's own program, which needs no Node."""
    program = next(iter(sorted((root / "node_modules" / "@esbuild").glob("*/bin/esbuild"))), None)
    if program is None:
        raise Missing("The pages need esbuild's program for this machine, which is not in node_modules: remove that folder, then `make setup`.")
    run = subprocess.run([program, "--bundle", "--minify", "--charset=utf8", "--legal-comments=none", "--log-level=warning", *arguments], cwd=root, capture_output=True, text=True)
    if run.returncode or run.stderr.strip():
        raise Missing(f"esbuild could not bundle the pages' modules:\n{run.stderr.strip()}")


def bundle_editor(root: Path, target: Path) -> None:
    """CodeMirror's dozen packages as the one module that `page/editor.mjs` imports."""
    modules(root)
    esbuild(root, "--format=esm", "--target=es2022", f"--outfile={target}", str(root / "book" / "codemirror.mjs"))


def bundle_classic(root: Path, static: Path) -> None:
    """All that a page from file:// can have, as one classic script; import.meta is a thing of modules."""
    here = static / "widgets" / "classic.js"
    entry = static / "widgets" / "classic-entry.mjs"
    entry.write_text('import "./mount.mjs";\nimport "../page/page.mjs";\n', encoding="utf-8")
    esbuild(root, "--format=iife", "--external:./cells.mjs", "--target=es2022", "--define:import.meta.url=KV_HERE", "--banner:js=var KV_HERE=document.currentScript.src;", f"--outfile={here}", str(entry))
    entry.unlink()


def copy_python(root: Path, target: Path) -> None:
    """Pyodide's five files, the course's package, and how many bytes that is, for the progress a reader sees."""
    folder = modules(root) / "pyodide"
    target.mkdir(parents=True, exist_ok=True)
    for name in PYODIDE:
        shutil.copyfile(folder / name, target / name)
    without_cdn(target / PYODIDE[0])
    zip_course(root / "autograder", target / "course.zip")
    fetched = [target / name for name in (*PYODIDE[2:], "course.zip")]
    (target / "bytes.mjs").write_text(f"export default {sum(path.stat().st_size for path in fetched)};\n", encoding="utf-8")


def without_cdn(loader: Path) -> None:
    """Pyodide's loader names a host for packages that it is not given; the worker gives it this site, and the name goes too."""
    text = loader.read_text(encoding="utf-8")
    if text.count(CDN) != 1:
        raise Missing(f"Pyodide's loader names {CDN} {text.count(CDN)} times and not once, as it did: see to book/_ext/page_files.py.")
    loader.write_text(text.replace(CDN, "./"), encoding="utf-8")


def zip_course(package: Path, target: Path) -> None:
    """The students' part of the package as a zip whose bytes follow from its files alone."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted([*package.rglob("*.py"), *package.rglob("*.json")]):
            name = path.relative_to(package).as_posix()
            if not name.startswith(NOT_IN_BROWSER) and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(f"{package.name}/{name}", LONG_AGO)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes())
