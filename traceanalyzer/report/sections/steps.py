"""How long the steps took, what a typical one looks like, and what recurs."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.figures.picture import step_figure
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer

_TITLES = {
    "typical": "A typical step (of median length): step {step}",
    "worst": "The longest step that counts: step {step}",
}


def blocks(material: Material) -> Iterator[Block]:
    """Step times, a picture of a typical step and of the worst, the steps one by one, pauses that recur."""
    names = material.names()
    of = len(material.scope.devices)
    for kind, step in material.steps_to_draw():
        picture = material.picture(step)
        if picture is not None:
            drawn = len(picture.stretches)
            few = "" if drawn == of else f", {drawn} of {of} devices"
            yield step_figure(picture, names, kind, _TITLES[kind].format(step=step) + few)
    yield from whole_answer(material, "steps", tables=("pauses",), folded=("steps",))


SECTION = Section(
    "steps",
    "Steps",
    "Steps",
    blocks,
    "No steps were marked: call `profiler.step()` in the loop under torch.profiler, or put an NVTX range named `step`"
    " around each (traceanalyzer howto).",
)
