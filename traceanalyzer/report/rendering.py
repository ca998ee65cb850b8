"""How a page is rendered: templates, what is inlined into it, and texts that can only be text."""

import base64
import functools
import gzip
import html
import json
import re
from importlib import resources
from typing import Any

from traceanalyzer.cells import printable
from traceanalyzer.report.blocks import Figure

_TEMPLATES = frozenset({"hovertemplate", "texttemplate"})
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def figure_json(figure: Figure) -> Any:
    """Traces and layout as JSON that may stand inside of a script element; names in it are text for plotly.js too."""
    from markupsafe import Markup

    whole = {"traces": [_safe(trace) for trace in figure.traces], "layout": _safe(figure.layout)}
    text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


def _safe(value: Any, key: str = "") -> Any:
    """A value of a figure with its texts as text: plotly.js takes a few tags for markup."""
    if isinstance(value, str):
        return value if key in _TEMPLATES else html.escape(printable(value), quote=False)
    if isinstance(value, dict):
        return {name: _safe(item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_safe(item, key) for item in value]
    return value


@functools.cache
def _environment() -> Any:
    import jinja2

    def made_printable(value: Any) -> Any:
        return printable(value) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("traceanalyzer.report", "templates"),
        autoescape=True,
        finalize=made_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["said"] = said
    return environment


_CODE = re.compile(r"`([^`]+)`")


def said(text: str) -> Any:
    """A sentence for a page: what stands between backticks is code, and a figure stays with its percent sign."""
    from markupsafe import Markup, escape

    parts = _CODE.split(printable(text).replace(" %", "\N{NO-BREAK SPACE}%"))
    marked = [Markup("<code>{}</code>").format(part) if k % 2 else escape(part) for k, part in enumerate(parts)]
    return Markup("").join(marked)


def template(name: str) -> Any:
    """A template of the package by its name."""
    return _environment().get_template(name)


@functools.cache
def drawing() -> Any:
    """A script that unpacks plotly.js and runs it: less than half the size of plotly.js itself."""
    data = base64.b64encode(gzip.compress(asset("plotly-cartesian.min.js").encode(), mtime=0)).decode()
    return inlined(
        f'window.unpacked=(async()=>{{const bytes=Uint8Array.from(atob("{data}"),(c)=>c.charCodeAt(0));'
        'const stream=new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));'
        'const text=await new Response(stream).text();const script=document.createElement("script");'
        "script.textContent=text;document.head.append(script);})();"
    )


def inlined(text: str) -> Any:
    """Text of our own files, which stands in the page as it is."""
    from markupsafe import Markup

    return Markup(text)


def asset(name: str) -> str:
    """The text of an asset of the package."""
    return resources.files("traceanalyzer.report").joinpath("assets", name).read_text(encoding="utf-8")
