"""A page of the report, read back: its tables, links, figures and texts."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link", "hr"}


@dataclass
class ParsedTable:
    """A table: its columns, and of each row its anchor and the cells by column: (exact value, whole text)."""

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[str, dict[str, tuple[str | None, str]]]] = field(default_factory=list)


class ParsedPage(HTMLParser):
    """The page. `open` is the stack of elements that are open: a page that does not nest right is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.tables: dict[tuple[str, str], ParsedTable] = {}
        self.figures: dict[str, dict] = {}
        self.commands: list[str] = []
        self._after_code = False
        self._table: ParsedTable | None = None
        self._cell: list[str] | None = None
        self._kept: dict[str, str | None] = {}
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag != "code":
            self._after_code = False
        if tag not in VOID:
            self.open.append((tag, given))
        if given.get("id"):
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        if "data-table" in given:
            self._table = self.tables.setdefault((given["data-command"], given["data-table"]), ParsedTable())
        if tag == "th":
            self._table.columns.append(given["data-column"])
        if tag == "tr" and "id" in given:
            self._table.rows.append((given["id"], {}))
        if tag == "td":
            self._cell, self._kept = [], given

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()
        if tag != "code":
            self._after_code = False
        if tag == "td":
            _, cells = self._table.rows[-1]
            cells[self._table.columns[len(cells)]] = (self._kept.get("data-v"), "".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data):
        inside = [tag for tag, _ in self.open]
        if "script" in inside:
            if self.open[-1][1].get("type") == "application/json":
                anchor = next(given["id"] for tag, given in reversed(self.open) if tag == "figure")
                self.figures[anchor] = json.loads(data)
            return
        if "style" in inside:
            return
        data = data.replace("\N{NO-BREAK SPACE}", " ")
        is_code = inside[-1:] == ["code"]
        if is_code and ("span", {"class": "command"}) in self.open:
            self.commands.append(data)
        elif is_code:
            data = f"`{data}`"
        if (is_code or self._after_code) and self.texts and ("span", {"class": "command"}) not in self.open:
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self._after_code = is_code
        shortened = ("details", {"class": "name"}) in self.open and "summary" in inside
        if self._cell is not None and not shortened:
            self._cell.append(data)

    @property
    def text(self) -> str:
        """Everything that a reader sees."""
        return "\n".join(self.texts)
