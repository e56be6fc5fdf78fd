"""Pictures of a record. Each names its device, so that a picture taken out of its page still says where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autograder import draw
from autograder import tokens as look
from autograder.copycost.reading import ceiling, curves
from autograder.copycost.records import device_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def times(record: dict, title: str = "") -> Figure:
    """Microseconds of one call over the number of blocks, for each way: medians, quartiles shaded, and the fitted line."""
    with draw._style():
        fig, axes = draw._figure(look.FIGURE_WIDTH, 4.0)
        for n, curve in enumerate(curves(record)):
            style = draw._line(n)
            axes.plot(curve.blocks, [1e6 * s for s in curve.medians], label=curve.way, **style)
            axes.fill_between(curve.blocks, [1e6 * s for s in curve.lows], [1e6 * s for s in curve.highs], color=style["color"], alpha=0.2, linewidth=0)
            if curve.line:
                axes.plot(curve.blocks, [1e6 * curve.line.seconds(2 * b) for b in curve.bytes], color=style["color"], linewidth=0.7, alpha=0.8)
        axes.set(xscale="log", yscale="log", ylabel="microseconds a call")
        return _finished(fig, axes, record, title)


def rates(record: dict, title: str = "") -> Figure:
    """GB a second, read plus written, over the number of blocks, for each way; dashed the rate of one large copy."""
    with draw._style():
        fig, axes = draw._figure(look.FIGURE_WIDTH, 4.0)
        for n, curve in enumerate(curves(record)):
            axes.plot(curve.blocks, [rate / 1e9 for rate in curve.rates], label=curve.way, **draw._line(n))
        axes.axhline(ceiling(record) / 1e9, color=look.INK, linestyle=(0, (4, 3)), linewidth=1, label="one large copy")
        axes.set(xscale="log", ylabel="GB a second, read plus written")
        axes.set_ylim(bottom=0)
        return _finished(fig, axes, record, title)


def _finished(fig: Figure, axes: object, record: dict, title: str) -> Figure:
    counts = sorted({block for curve in curves(record) for block in curve.blocks})
    axes.set(xlabel=f"blocks of {curves(record)[0].block_bytes / 2**20:g} MiB copied at once   ·   {device_words(record)}   ·   {record['date'][:10]}")
    axes.set_xticks(counts[:: max(1, len(counts) // 7)], [f"{count:,}" for count in counts[:: max(1, len(counts) // 7)]])
    axes.minorticks_off()
    axes.grid(color=look.SHARED_FILL)
    draw._legend_below(axes)
    return draw._finished(fig, axes, title or None)


