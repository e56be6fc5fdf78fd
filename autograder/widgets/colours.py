"""The visual language as CSS custom properties, for both themes of every front end; made from `autograder.tokens`."""

from __future__ import annotations

from autograder import tokens as look

# A block's picture is a white card in any theme (tokens.PAPER); what is round it follows the theme.
_LIGHT = {"ink": look.INK, "muted": look.MUTED, "line": "#6E7781", "ground": "#FFFFFF", "soft": "#F3F4F6", "accent": "#0B5CAD", "good": "#00694C", "bad": look.ALARM}
_DARK = {"ink": "#E6E8EB", "muted": "#B4BBC4", "line": "#8C959F", "ground": "#1B1F24", "soft": "#272C33", "accent": "#7CC0FF", "good": "#4FD1A5", "bad": "#FF9A8F"}
_DARK_THEMES = 'html[data-theme="dark"] .kv-widget, [data-jp-theme-light="false"] .kv-widget, body.vscode-dark .kv-widget, body.vscode-high-contrast .kv-widget'


def _rule(selector: str, colours: dict[str, str]) -> str:
    return f"{selector} {{ {' '.join(f'--kv-{name}: {value};' for name, value in colours.items())} }}\n"


_FIXED = {f"hue-{n}": hue for n, hue in enumerate(look.HUES)} | {f"on-hue-{n}": look.ink_on(hue) for n, hue in enumerate(look.HUES)} | {
    "no-hue": look.NO_HUE, "paper": look.PAPER, "paper-ink": look.INK, "paper-line": look.LINE, "shared": look.SHARED_FILL, "alarm": look.ALARM,
    **{f"fill-{kind}": fill for kind, fill in look.KIND_FILLS.items()},
}  # fmt: skip
COLOURS = _rule(".kv-widget", _FIXED | _LIGHT) + _rule(_DARK_THEMES, _DARK)
