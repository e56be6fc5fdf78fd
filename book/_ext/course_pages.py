"""Sphinx extension of the course book: answers' outputs on the lessons' pages, and nothing from another host.

A lesson's page is made from the released notebook in `notebooks/`. Where the instructors' `source_assignments/` is
present, the outputs of the solved lesson are laid on it, never its code; in a student repository the pages simply have
no outputs. Every script and stylesheet that points to another host is dropped, so that a page reads the same offline.
"""

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)

PAGES, SOURCES = "notebooks/", "source_assignments"
WIDGETS = "autograder/widgets"     # modules and styles that a notebook gets through anywidget and a page from its own folder
NOT_NEEDED = ("sphinx-thebe.js", "sphinx-thebe.css", "play-solid.svg")   # sphinx-thebe's, which loads from unpkg
THIRD_PARTY = re.compile(r"THEBE_JS_URL|sphinx-thebe|thebelab|^(https?:)?//")


def make_answers(app):
    """Run what has changed before Sphinx decides which pages are outdated."""
    root = Path(app.srcdir)
    app.course_answers = {}
    if not (root / SOURCES).is_dir():
        return
    sys.path.insert(0, str(root))
    from autograder.staff.answers import AnswerKeyFailed, ensure

    for notebook in sorted(root.glob(f"{PAGES}*/*.ipynb")):
        lesson = root / SOURCES / notebook.parent.name
        if lesson.is_dir() and notebook.stem == lesson.name:
            try:
                if answers := ensure(lesson):
                    app.course_answers[f"{PAGES}{lesson.name}/{lesson.name}"] = answers
            except AnswerKeyFailed as error:
                sys.exit(f"\n{error}")     # Jupyter Book would bury any other exception under tracebacks of its own


def lay_answers(app, docname, source):
    """Put the answer key's outputs on a lesson's released notebook while Sphinx reads it."""
    if not docname.startswith(PAGES):
        return
    notebook = json.loads(source[0])
    answers = app.course_answers.get(docname)
    if answers:
        app.env.note_dependency(str(answers))
    cells = json.loads(answers.read_text(encoding="utf-8"))["cells"] if answers else {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = cells.get(cell.get("id"), []), None
    source[0] = json.dumps(notebook)


def read_all_or_nothing(app, env, added, changed, removed):
    """Renew every page if anything is new, in an emptied folder, so that what is built never depends on an earlier build.

    Page by page, Sphinx would leave old figures, old titles in sidebars and empty entries in the search index.
    """
    out = Path(app.outdir)
    for style in out.glob("_static/mystnb.*.css"):
        style.unlink()     # MyST-NB puts it back; with it there, pages would link to it by another address
    digest = _digest_of(app)
    if not (added or changed or removed) and digest == getattr(env, "course_digest", None) and (out / "searchindex.js").exists():
        return []
    env.course_digest = digest
    if app.builder.format == "html" and (out / ".buildinfo").exists():     # Sphinx's own mark: nobody else's folder
        shutil.rmtree(out)
        out.mkdir()
    return sorted(env.found_docs)


def _digest_of(app):
    """A hash of what shapes every page."""
    root = Path(app.srcdir)
    files = [root / "_config.yml", root / "_toc.yml", *(root / "book" / "_static").rglob("*"), *(root / "book" / "_ext").glob("*.py"), *(root / WIDGETS).iterdir()]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.is_file()):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def drop_third_parties(app, pagename, templatename, context, doctree):
    """Leave out scripts and stylesheets of other hosts, and what sphinx-thebe adds to every page."""
    for kind in ("script_files", "css_files"):
        context[kind] = [entry for entry in context.get(kind, []) if not _is_third_party(entry)]
    if doctree is not None and app.env.get_domain("math").has_equations(pagename):
        logger.warning("this page has TeX maths, and the book loads no MathJax: write it as code or Unicode", location=pagename)


def add_widgets(app):
    """Let every page start `mount.mjs`; the files themselves are copied when the build ends."""
    app.add_js_file("widgets/mount.mjs", type="module")


def copy_widgets(app, error):
    """Put the widgets' modules and styles, and the colours made from the course's own tokens, beside the pages."""
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir) / "_static" / "widgets"
    out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(app.srcdir))
    from autograder.widgets.colours import COLOURS

    for path in sorted((Path(app.srcdir) / WIDGETS).iterdir()):
        if path.suffix in (".mjs", ".css"):
            shutil.copyfile(path, out / path.name)
    (out / "colours.css").write_text(COLOURS, encoding="utf-8")


def _is_third_party(entry):
    """Whether an entry of Sphinx's lists, a string or an object with attributes, comes from elsewhere."""
    body = (getattr(entry, "attributes", None) or {}).get("body") or ""
    return bool(THIRD_PARTY.search(str(getattr(entry, "filename", entry) or "")) or THIRD_PARTY.search(body))


def remove_leftovers(app, error):
    """Delete the files that the dropped entries pointed to."""
    if error is None and app.builder.format == "html":
        for name in NOT_NEEDED:
            (Path(app.outdir) / "_static" / name).unlink(missing_ok=True)


def setup(app):
    app.connect("builder-inited", make_answers)
    app.connect("builder-inited", add_widgets)
    app.connect("env-get-outdated", read_all_or_nothing)
    app.connect("source-read", lay_answers)
    app.connect("html-page-context", drop_third_parties, priority=900)
    app.connect("build-finished", copy_widgets)
    app.connect("build-finished", remove_leftovers, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
