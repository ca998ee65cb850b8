"""Draw the pictures of README.md: gaps.svg, what a terminal shows of a sample, and report.png, the head of a report.

Run in a checkout: `python docs/images/make.py`. The picture of the report needs playwright and Chromium.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
COMMAND = ("gaps", "sample_traces/planted_sleep", "--top", "3", "--quiet")
WIDTH = 118
# rich's own template loads a font from the network; a picture in a repository has to do without.
FORMAT = """<svg class="rich-terminal" xml:space="preserve" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


REPORT = HERE.parents[1] / "reports" / "ddp2_slow1.html"
SHOWN = "figure-step-typical"
"""The figure that is shown beneath the head of the report."""


def main() -> None:
    """Draw both."""
    draw_terminal()
    draw_report()


def draw_report() -> None:
    """Take a picture of the report's head and of a step of both ranks."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 700}, device_scale_factor=1.5)
        page.goto(REPORT.as_uri())
        page.evaluate(
            """name => {
                const figure = document.getElementById(name);
                document.querySelectorAll("nav, footer, .tools").forEach((each) => each.remove());
                document.querySelector("main").replaceChildren(figure);
            }""",
            SHOWN,
        )
        page.wait_for_selector(f"#{SHOWN} .main-svg")
        page.screenshot(path=HERE / "report.png", full_page=True)
        browser.close()


def draw_terminal() -> None:
    """Run the command and draw what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *COMMAND],
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE.parents[1],
        env=os.environ | {"COLUMNS": str(WIDTH)},
    )
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text("$ traceanalyzer " + " ".join(COMMAND[:-1]), style="bold green"))
        for line in done.stdout.splitlines():
            console.print(
                Text(
                    line.replace(" ", "\u00a0"),
                    style="bold" if line.startswith(("run", "devices:", "causes:", "stacks:", "- ")) else "",
                )
            )
        svg = console.export_svg(title="traceanalyzer", theme=MONOKAI, code_format=FORMAT, unique_id="gaps")
    (HERE / "gaps.svg").write_text(svg + "\n")


if __name__ == "__main__":
    main()
