"""Sphinx extension of the course book: answers' outputs on the lessons' pages, cells that run, and nothing from another host.

A lesson's page is made from the released notebook in `notebooks/`. Where the instructors' `source_assignments/` is
present, the outputs of the solved lesson are laid on it, never its code; in a student repository the pages simply have
no outputs. Every script and stylesheet that points to another host is dropped, so that a page reads the same offline.
Each code cell gets its id and its kind, which `_static/page/cells.mjs` makes an editor of.
"""

import ast
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))
import page_access
import page_files
import page_policy

logger = logging.getLogger(__name__)

PAGES, SOURCES = "notebooks/", "source_assignments"
HIDDEN = "remove-input"            # a cell's tag: its output is on the page, its code is not
WIDGETS = "autograder/widgets"     # modules and styles that a notebook gets through anywidget and a page from its own folder
# sphinx-thebe's, which loads from unpkg, and the script with all icons, see page_access.
NOT_NEEDED = ("sphinx-thebe.js", "sphinx-thebe.css", "play-solid.svg", "scripts/fontawesome.js", "scripts/fontawesome.js.map", "scripts/fontawesome.js.LICENSE.txt")
THIRD_PARTY = re.compile(r"THEBE_JS_URL|sphinx-thebe|thebelab|^(https?:)?//")


def add_launch_buttons(app, config):
    """Let the theme make its buttons for hub, Colab and Binder if `course_home` says where the course lives."""
    sys.path.insert(0, str(app.srcdir))
    from autograder.staff import launch

    try:
        config.html_theme_options = {**config.html_theme_options, **launch.theme_options(launch.home_of(config.course_home))}
    except launch.Unusable as unusable:
        sys.exit(f"\n{unusable}")


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
    name_cells(notebook["cells"])
    app.env.course_versions = getattr(app.env, "course_versions", {}) | {docname: version_of(notebook["cells"])}
    source[0] = json.dumps(notebook)


def name_cells(cells):
    """Say of each code cell what the page should know: its id, and what it is."""
    for cell in cells:
        if cell["cell_type"] == "code" and cell.get("id"):
            cell["metadata"]["page"] = {"id": cell["id"], "kind": _kind(cell)}
            if _is_hidden(cell) and not _is_one_expression("".join(cell["source"])):
                logger.warning(f"cell {cell['id']} is tagged {HIDDEN} and is not one expression: the page does not run it, so cells below would lack what it defines")


def _is_hidden(cell):
    return HIDDEN in cell["metadata"].get("tags", [])


def _is_one_expression(code):
    body = ast.parse(code).body
    return len(body) == 1 and isinstance(body[0], ast.Expr)


def _kind(cell):
    """What a cell is to the page: a "prompt" or "widget" (nothing to run), a "check", an "exercise" or "plain"."""
    about = cell["metadata"].get("nbgrader", {})
    if any('data-widget="question"' in html for html in _html_of(cell)):
        return "prompt"
    if _is_hidden(cell):
        return "widget"     # a simulator with no code to be seen
    return "check" if about.get("grade") else "exercise" if about.get("solution") else "plain"


def _html_of(cell):
    return ["".join(output.get("data", {}).get("text/html", "")) for output in cell["outputs"]]


def version_of(cells):
    """A hash of what a reader can have worked on: the code, and the widgets that stand below it."""
    shown = [[cell.get("id"), cell["source"], [html for html in _html_of(cell) if "data-widget=" in html]] for cell in cells
             if cell["cell_type"] == "code" and "remove-cell" not in cell.get("metadata", {}).get("tags", [])]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def mark_cells(app, doctree):
    """Put the ids and kinds on the elements of the page."""
    for node in doctree.findall(nodes.container):
        about = (node.get("cell_metadata") or {}).get("page") if node.get("nb_element") == "cell_code" else None
        if about:
            node["classes"].append(f"kv-{about['kind']}")
            if about["kind"] not in ("prompt", "widget"):
                node["ids"].append(f"cell-{about['id']}")


def name_terms(app, doctree):
    """Let a Markdown link lead to a term of the glossary: MyST knows headings and targets, and terms only by a role that JupyterLab does not have."""
    slugs = app.env.metadata[app.env.docname]
    for glossary in doctree.findall(addnodes.glossary):
        for term in glossary.findall(nodes.term):
            slugs.setdefault("myst_slugs", {}).update({id: (term.line, id, term.astext()) for id in term["ids"]})


def tell_version(app, pagename, templatename, context, doctree):
    """The version of the page's cells, by which a reader's work is kept."""
    version = getattr(app.env, "course_versions", {}).get(pagename)
    if version:
        context["metatags"] = context.get("metatags", "") + f'<meta name="kv-version" content="{version}" />'


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
    files = [root / "_config.yml", root / "_toc.yml", *(root / "book" / "_static").rglob("*"), *(root / "book" / "_ext").glob("*.py"), *(root / WIDGETS).iterdir(),
             root / "book" / "codemirror.mjs", root / "package-lock.json", *(root / "autograder").rglob("*.py"), *(root / "autograder").rglob("*.json")]
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


def add_scripts(app):
    """Let every page start its modules; the files themselves are copied when the build ends."""
    app.add_js_file("widgets/mount.mjs", type="module")
    app.add_js_file("page/page.mjs", type="module")
    app.add_js_file("page/file.js")
    app.add_css_file("page/page.css")
    try:
        page_files.modules(Path(app.srcdir))
    except page_files.Missing as missing:
        sys.exit(f"\n{missing}")


def finish_pages(app, error):
    """Put Python, the editor and the script for file:// beside the pages, then mend every page and give it its policy."""
    if error is not None or app.builder.format != "html":
        return
    root, static = Path(app.srcdir), Path(app.outdir) / "_static"
    page_files.copy_python(root, static / "pyodide")
    page_files.bundle_editor(root, static / "page" / "codemirror.mjs")
    page_files.bundle_classic(root, static)
    for page in sorted(Path(app.outdir).rglob("*.html")):
        if "_static" not in page.parts:
            text = page_access.mend(page.read_text(encoding="utf-8"))
            page.write_text(page_policy.with_policy(text), encoding="utf-8")


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
    app.add_config_value("course_home", {}, "html")
    app.connect("config-inited", add_launch_buttons)
    app.connect("builder-inited", make_answers)
    app.connect("builder-inited", add_scripts)
    app.connect("env-get-outdated", read_all_or_nothing)
    app.connect("source-read", lay_answers)
    app.connect("doctree-read", mark_cells)
    app.connect("doctree-read", name_terms)
    app.connect("html-page-context", tell_version)
    app.connect("html-page-context", drop_third_parties, priority=900)
    app.connect("build-finished", copy_widgets)
    app.connect("build-finished", finish_pages, priority=910)
    app.connect("build-finished", remove_leftovers, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
