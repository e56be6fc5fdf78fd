"""Every page's Content-Security-Policy, made from the finished page: what it may load, and nothing else."""

import base64
import hashlib
import html
import re

SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.S | re.I)
STYLE = re.compile(r"<style\b[^>]*>(.*?)</style>", re.S | re.I)
# The theme's button to print; page/page.mjs does what its attribute did, which a policy without 'unsafe-hashes' would refuse.
HANDLER = re.compile(r'(<button) onclick="window\.print\(\)"')
HEAD = re.compile(r'<meta charset="utf-8" ?/?>', re.I)


def policy(page: str) -> str:
    """The directives for a page, each with the least that it works under."""
    scripts = [_hash(body) for attributes, body in SCRIPT.findall(page) if _runs(attributes, body)]
    styles = [_hash(body) for body in STYLE.findall(page)]
    return "; ".join([
        "default-src 'none'",
        # Files of this site; the theme's few inline scripts by their hash; and compiling Python's WebAssembly, in the
        # worker, which is held to the policy of its page. Neither eval nor any other inline script.
        f"script-src 'self' 'wasm-unsafe-eval' {' '.join(dict.fromkeys(scripts))}".strip(),
        # Style sheets of this site, and the inline ones by their hash.
        f"style-src 'self'; style-src-elem 'self' {' '.join(dict.fromkeys(styles))}".strip(),
        # A check's card, and tables of the text, carry their styles as attributes, so that they look the same in a notebook.
        "style-src-attr 'unsafe-inline'",
        # Pictures of this site, and those inside style sheets.
        "img-src 'self' data:",
        "font-src 'self'",
        # The search index; Python's files.
        "connect-src 'self'",
        # The worker in which Python runs: a line of the page's own, so that this policy holds in it too.
        "worker-src blob:",
        # The search form.
        "form-action 'self'",
        "base-uri 'none'",
    ])


def _runs(attributes: str, body: str) -> bool:
    """Whether a script element holds code of its own; data in one is no script to a policy."""
    return bool(body.strip()) and "src=" not in attributes and "json" not in attributes


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def with_policy(page: str) -> str:
    """The page with its policy before anything that the policy governs."""
    page = HANDLER.sub(r"\1", page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy(page), quote=False)}" />'
    found = HEAD.search(page)
    if found is None:      # Jupyter Book's index.html, which only sends on
        return f"{meta}\n{page}"
    return f"{page[: found.end()]}\n    {meta}{page[found.end() :]}"
