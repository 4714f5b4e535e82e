"""Converts Matplotlib figures to SVG elements, of which one HTML page can hold many."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec
from xml.etree import ElementTree

from assets.words.text import escape_controls

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT_FAMILY = re.compile(r"font-family:[^;]*;? ?")
PAGE_STYLE: Any = {
    # Text stays text: it can be read aloud, searched and copied.
    "svg.fonttype": "none",
    # A name with two dollar signs is a name, not a formula.
    "text.parse_math": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#666666",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}


def use_page_style(draw: Callable[P, str]) -> Callable[P, str]:
    """Decorate a function that plots, so that it runs with the Matplotlib settings of a report's page (PAGE_STYLE).
    Matplotlib reads its settings whenever it makes a part of a figure.
    """

    @wraps(draw)
    def plot(*args: P.args, **kwargs: P.kwargs) -> str:
        import matplotlib as mpl

        with mpl.rc_context():
            # A file matplotlibrc of the current folder would change the page.
            mpl.rcdefaults()
            mpl.rcParams.update(PAGE_STYLE)
            return draw(*args, **kwargs)

    return plot


def render_svg(figure: Figure, name: str, description: str) -> str:
    """Render a Matplotlib figure as an SVG element for an HTML page, without metadata and fonts; equal figures give
    equal text. name: prefix of every id in it, so it must differ between the figures of a page. description: text for
    screen readers.
    """
    import matplotlib as mpl

    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(stream, format="svg", metadata=nothing, transparent=True)
    root = ElementTree.fromstring(stream.getvalue())
    _clean(root, name)
    width, height = (float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height"))
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    root.set("style", f"width: {width * 4 / 3:.0f}px")
    root.set("role", "img")
    root.set("aria-label", escape_controls(description))
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(root: ElementTree.Element, name: str) -> None:
    """Remove metadata, style sheets (they would apply to the whole page) and ids that nothing refers to, in place."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    used = {
        reference
        for element in root.iter()
        for value in element.attrib.values()
        for reference in _REFERENCE.findall(value)
    }
    used |= {value[1:] for element in root.iter() if (value := element.get(f"{{{_XLINK}}}href", "")).startswith("#")}
    for element in root.iter():
        if (element_id := element.get("id")) is not None:
            del element.attrib["id"]
            if element_id in used:
                element.set("id", f"{name}-{element_id}")
        if element.get(f"{{{_XLINK}}}href", "").startswith("#"):
            element.set(f"{{{_XLINK}}}href", f"#{name}-{element.attrib[f'{{{_XLINK}}}href'][1:]}")
        for key, value in element.attrib.items():
            if "url(#" in value:
                element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
        if "font-family:" in element.get("style", ""):
            # Use the page's own font, since a reader's machine may lack the one that is named.
            element.set("style", _FONT_FAMILY.sub("", element.attrib["style"]))
        if "d" in element.attrib:
            element.set("d", " ".join(element.attrib["d"].split()))
        if element.tag != f"{{{_SVG}}}text":
            element.text = element.text and element.text.strip()
        element.tail = None
