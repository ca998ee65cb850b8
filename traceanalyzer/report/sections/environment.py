"""Where the job ran, and from which files all this is told."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, table_of


def blocks(material: Material) -> Iterator[Block]:
    """Facts of hardware and software, without environment variables; captures and devices."""
    checkup = material.answer("checkup")
    if len(checkup.tables["environment"]):
        yield table_of(material, checkup, "environment", most=100)
    info = material.answer("info")
    for name, title in (("captures", "Files that were read"), ("devices", "GPUs")):
        if len(info.tables[name]):
            yield table_of(material, info, name, title, folded=name == "devices")


SECTION = Section("environment", "Environment", "Environment", blocks, "No file tells where the job ran.")
