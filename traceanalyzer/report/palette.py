"""Colours and patterns of figures: safe for colour-blind readers, and never the only thing that tells parts apart.

Busy categories have the colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any kind of
colour blindness tell apart. Idle causes share two greys and a brown and differ by pattern: there are more of them than
there are such colours.
"""

from dataclasses import dataclass

BLUE, ORANGE, VERMILION = "#0072b2", "#e69f00", "#d55e00"
PURPLE, GREEN, SKY = "#cc79a7", "#009e73", "#56b4e9"
LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""Colours of lines, one after the other; their dashes tell them apart as well."""
GREY, DARK_GREY, BROWN = "#8b95a1", "#5b6570", "#8c6d46"
PATTERN = {"size": 6, "solidity": 0.3, "fillmode": "overlay", "fgcolor": "#ffffff"}
"""How patterns are drawn: in white over the colour."""


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, and pattern (of plotly.js; empty: none) of a part."""

    color: str
    pattern: str = ""

    @property
    def marker(self) -> dict[str, object]:
        """The same for a bar of plotly.js."""
        marker: dict[str, object] = {"color": self.color, "line": {"width": 0}}
        if self.pattern:
            marker["pattern"] = {"shape": self.pattern, **PATTERN}
        return marker


_BUSY = {
    "compute": Style(BLUE),
    "communication_transfer": Style(ORANGE),
    "communication_wait": Style(VERMILION, "\\"),
    "communication_unresolved": Style(PURPLE, "x"),
    "communication": Style(ORANGE),
    "copy": Style(GREEN),
}
_IDLE = {
    "python": Style(GREY, "/"),
    "framework": Style(GREY, "."),
    "launch_call": Style(GREY, "-"),
    "launch_latency": Style(GREY, "|"),
    "sync": Style(GREY, "x"),
    "input_wait": Style(GREY, "+"),
    "host_copy": Style(GREY, "\\"),
    "outside_events": Style(GREY),
    "api_call": Style(DARK_GREY, "-"),
    "device_gap": Style(DARK_GREY),
    "device_wait": Style(DARK_GREY, "|"),
    "memory_management": Style(DARK_GREY, "+"),
    "module_load": Style(DARK_GREY, "x"),
    "range": Style(DARK_GREY, "/"),
    "os_blocked": Style(DARK_GREY, "\\"),
    "unattributed": Style(DARK_GREY, "."),
    "gil_wait": Style(BROWN, "/"),
    "garbage_collection": Style(BROWN, "x"),
    "host_communication": Style(BROWN, "-"),
    "profiler": Style(BROWN, "."),
    "communication_only": Style(ORANGE, "|"),
    "copy_only": Style(GREEN, "|"),
}
_OF_VERDICTS = {
    "input_bound": Style(SKY, "+"),
    "host_bound": Style(GREY, "/"),
    "launch_bound": Style(GREY, "-"),
    "sync_bound": Style(GREY, "x"),
    "copy_bound": Style(GREEN),
    "communication_bound": Style(ORANGE),
    "straggler_bound": Style(VERMILION, "\\"),
    "periodic_pause": Style(PURPLE, "|"),
    "allocation_bound": Style(DARK_GREY, "+"),
    "compile_or_load": Style(DARK_GREY, "x"),
    "dependency_bound": Style(DARK_GREY),
    "profiler_bound": Style(BROWN, "."),
    "left_over": Style(DARK_GREY, "."),
}
_OF_CLASSES = {
    "compute_bound": Style(BLUE),
    "memory_bound": Style(ORANGE, "/"),
    "latency_bound": Style(VERMILION, "x"),
    "balanced": Style(GREEN, "."),
}
OTHER = Style(GREY)
SYMBOLS = {"compute_bound": "circle", "memory_bound": "square", "latency_bound": "diamond", "balanced": "triangle-up"}
"""Symbols of points by what limits a kernel; others are crosses."""


def style_of(part: str) -> Style:
    """The style of a category of the ledger, a verdict or a class of kernels."""
    if part.startswith("idle:"):
        return _IDLE.get(part.removeprefix("idle:"), Style(DARK_GREY, "."))
    for styles in (_BUSY, _OF_VERDICTS, _OF_CLASSES):
        if part in styles:
            return styles[part]
    return OTHER
