"""The sections of the report, a module each. A new section is a module with `SECTION` in it and one line here."""

from traceanalyzer.report.sections import (
    definitions,
    environment,
    fitness,
    gaps,
    kernels,
    ledger,
    memory,
    operators,
    ranks,
    samples,
    steps,
    verdict,
)
from traceanalyzer.report.sections.section import Section

SECTIONS: tuple[Section, ...] = (
    verdict.SECTION,
    ledger.SECTION,
    steps.SECTION,
    gaps.SECTION,
    ranks.SECTION,
    kernels.SECTION,
    operators.SECTION,
    memory.SECTION,
    samples.SECTION,
    environment.SECTION,
    fitness.SECTION,
    definitions.SECTION,
)
"""In the order in which they stand in the page."""
