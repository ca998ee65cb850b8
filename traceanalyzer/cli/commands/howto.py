"""`traceanalyzer howto`: how to capture what the questions need."""

from pathlib import Path

import click

TEXTS = Path(__file__).resolve().parents[1] / "howto"
"""A page for each topic. A new one is a file there and its name in `TOPICS`."""

TOPICS = ("nsys", "torch", "ncu", "peaks", "telemetry", "dcgm", "baseline")
_INDENT = "    "


@click.command("howto")
@click.argument("topic", required=False, type=click.Choice(TOPICS), metavar="[TOPIC]")
def command(topic: str | None) -> None:
    """How to capture what the questions need: exact commands, what they cost, and their pitfalls.

    TOPIC is nsys, torch, ncu, peaks, telemetry, dcgm or baseline; without one the topics are listed.

    \b
    Examples:
      traceanalyzer howto                        # the topics
      traceanalyzer howto nsys                   # record with Nsight Systems, also ranks and containers
      traceanalyzer howto torch                  # record with torch.profiler
      traceanalyzer howto baseline               # measure so that a change can be believed
    """
    if topic is None:
        width = max(map(len, TOPICS))
        for name in TOPICS:
            click.echo(f"{name:<{width}}  {title(name)}")
        click.echo("\nnext:\n  traceanalyzer howto TOPIC")
    else:
        click.echo(plain(page(topic)), nl=False)


def page(topic: str) -> str:
    """The page of a topic, as Markdown."""
    return (TEXTS / f"{topic}.md").read_text(encoding="utf-8")


def title(topic: str) -> str:
    """What the page of a topic is about: its heading without the topic's name."""
    return page(topic).partition("\n")[0].removeprefix(f"# {topic}: ")


def plain(markdown: str) -> str:
    """The page as text for a terminal: headings underlined, code indented so that it can be copied.

    Commands inside of sentences keep their backticks, which tell them from the prose.
    """
    out = []
    in_code = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif in_code:
            out.append(f"{_INDENT}{line}".rstrip())
        elif line.startswith("#"):
            text = line.lstrip("# ")
            out += [text, ("=" if line.startswith("# ") else "-") * len(text)]
        else:
            out.append(line)
    return "\n".join(out) + "\n"
