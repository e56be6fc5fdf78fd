"""What the theme's and Sphinx's HTML lacks for people who listen to a page or speak to it; axe found each in the built book."""

import re

MENDED = [
    # The button says "Search Ctrl+K"; a name that is only "Search" hides the rest from who says what they see (WCAG 2.5.3).
    (re.compile(r'(<button class="btn search-button-field[^"]*") title="Search" aria-label="Search"'), r"\1"),
    # The pictures inside the button for the theme bring words of their own, which are no part of its name.
    (re.compile(r'(<i class="theme-switch[^>]*?) title="[^"]*"'), r"\1"),
    # Deprecated in ARIA 1.3, and no child of a list; a reference is an item of it.
    (re.compile(r'role="doc-biblioentry"'), 'role="listitem"'),
]


def mend(page: str) -> str:
    for found, better in MENDED:
        page = found.sub(better, page)
    return page
