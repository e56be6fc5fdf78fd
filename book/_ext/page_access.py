"""What the theme's and Sphinx's HTML lacks for people who listen to a page, speak to it, or wait for it on a slow line."""

import re

MENDED = [
    # The button says "Search Ctrl+K"; a name that is only "Search" hides the rest from who says what they see (WCAG 2.5.3).
    (re.compile(r'(<button class="btn search-button-field[^"]*") title="Search" aria-label="Search"'), r"\1"),
    # The pictures inside the button for the theme bring words of their own, which are no part of its name.
    (re.compile(r'(<i class="theme-switch[^>]*?) title="[^"]*"'), r"\1"),
    # Deprecated in ARIA 1.3, and no child of a list; a reference is an item of it.
    (re.compile(r'role="doc-biblioentry"'), 'role="listitem"'),
    # Half a megabyte of all icons as a script; the theme's style sheets bring the same icons as a font.
    (re.compile(r'\s*<script defer src="[^"]*/fontawesome\.js[^"]*"></script>'), ""),
    # A figure further down is loaded when it is near, and has its place before it is there.
    (re.compile(r'(<img alt="[^"]*" src="[^"]*") (style="width: (\d+)px; height: (\d+)px;") />'), r'\1 \2 width="\3" height="\4" loading="lazy" />'),
]


def mend(page: str) -> str:
    for found, better in MENDED:
        page = found.sub(better, page)
    return page
