"""A static site of bundles: HTML files that need no server and ask the network for nothing.

What the pages show are sections, as a report has them. Names of bundles, cards and variants come from strangers: the
template escapes them, and files are called by what is left of a name after everything but letters and digits is gone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gravbench.model.variant import Variant
from gravbench.report.page import html
from gravbench.report.section import Column, Part, Section, Table
from gravbench.report.sections.every import sections
from gravbench.site.gathered import Checked, Gathered
from gravbench.site.tables import LEVELS, Row, Tables
from gravbench.version import VERSION

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
GENERATOR = "gravbench site"
"""What a page says that it was written by."""
INDEX, CARDS, STEPS, CROSSOVER = "index.html", "cards.html", "steps.html", "crossover.html"

Links = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """A page: its file, and what stands on it. ``folded`` sections but the first of a group are opened by a click."""

    file: str
    title: str
    introduction: Sequence[str] = ()
    links: Mapping[str, Links] = field(default_factory=dict)
    groups: Sequence[tuple[str, Sequence[Section]]] = ()
    folded: bool = False

    @property
    def up(self) -> str:
        """What leads from the page to the folder of the site."""
        return "../" * self.file.count("/")


def write(gathered: Gathered, variants: Mapping[str, Variant], folder: Path) -> list[Path]:
    """Write the site into a folder, and return its files, the first page first.

    Pages of an earlier site that are not written again are removed: they may show what is refused now.

    Raises:
        OSError: a file cannot be written.
    """
    tables = Tables(gathered, variants)
    links = _Links(tables)
    pages = list(_pages(gathered, tables, variants, links))
    crossover = any(page.file == CROSSOVER for page in pages)
    script = (HERE / "site.js").read_text("utf-8")
    template = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html")
    shared = {
        "policy": POLICY.format(script=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()),
        "style": Markup((html.HERE / "page.css").read_text("utf-8") + (HERE / "site.css").read_text("utf-8")),
        "script": Markup(script),
        "generator": GENERATOR,
        "version": VERSION,
        "choices": _choices,
        "link": links.of_cell,
        "crossover": crossover,
    }
    files = []
    for page in pages:
        path = folder / page.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.render(page=page, **shared), "utf-8")
        files.append(path)
    _remove_older(folder, files)
    return files


def _remove_older(folder: Path, files: Sequence[Path]) -> None:
    for pattern in ("*.html", "cards/*.html", "variants/*.html"):
        for path in sorted(folder.glob(pattern)):
            if path not in files and f'content="{GENERATOR}"' in path.read_text("utf-8", errors="replace"):
                path.unlink()


class _Links:
    """The files of the pages of cards, variants and bundles, by their names."""

    def __init__(self, tables: Tables) -> None:
        self.cards = _files("cards", tables.devices)
        self.variants = _files("variants", sorted({row.record.variant for row in tables.rows}))

    def of_cell(self, column: str, cell: str, row: object) -> str:
        """Return the page that a cell leads to; empty where there is none."""
        if column == "card":
            return self.cards.get(cell, "")
        if column in ("variant", "over"):
            return self.variants.get(row.record.variant if isinstance(row, Row) else cell, "")
        return ""


def _files(folder: str, names: Iterable[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:80]
        # Two names may leave the same letters, and a name none.
        number = "" if plain == name.replace("_", "-") else f"-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
        files[name] = f"{folder}/{plain}{number}.html"
    return files


def _pages(gathered: Gathered, tables: Tables, variants: Mapping[str, Variant], links: _Links) -> Iterable[Page]:
    yield _index(gathered, links)
    yield Page(CARDS, "Cards side by side", groups=[("", [_untitled(tables.side_by_side())])])
    yield Page(STEPS, "Which step pays on which card", groups=[("", [_untitled(tables.steps())])])
    if crossover := tables.crossover():
        yield Page(CROSSOVER, crossover.title, groups=[("", [_untitled(crossover)])])
    for device, file in links.cards.items():
        yield _card(device, file, gathered, tables)
    for name, file in links.variants.items():
        yield _variant(name, file, tables, variants, links)


def _untitled(section: Section) -> Section:
    """Return a section that is a page of its own, whose title is the page's."""
    return Section(section.name, "", section.introduction, section.parts, section.notes)


def _index(gathered: Gathered, links: _Links) -> Page:
    columns: list[Column[Checked]] = [
        Column("bundle", lambda checked: checked.name, text=True),
        Column("records", lambda checked: f"{len(checked.records):,}"),
        Column("measured", lambda checked: " to ".join(sorted({_day(checked, min), _day(checked, max)})), text=True),
        Column("root", lambda checked: checked.answer.root, text=True),
        Column("signed by", lambda checked: str(checked.answer.signer or ""), text=True),
        Column("what could not be checked", lambda checked: "; ".join(checked.unchecked), text=True),
    ]
    parts = [Part(table=Table(columns, gathered.bundles))]
    groups = [("", [Section("bundles", "Bundles", "", parts)])]
    if gathered.refused:
        refused: list[Column[tuple[str, Sequence[str]]]] = [
            Column("file", lambda pair: pair[0], text=True),
            Column("why it was refused", lambda pair: "; ".join(pair[1]), text=True),
        ]
        part = Part(table=Table(refused, gathered.refused))
        groups.append(("", [Section("refused", "Refused", "None of their records is on this site.", [part])]))
    levels = Section("levels", "How much of a row is checked", "", [Part(facts=LEVELS)])
    groups.append(("", [levels]))
    introduction = [
        "Measurements of the gravity between N bodies, by gravbench, that others shared as bundles. Each was checked "
        "when this site was written. The check finds contradictions; that a card was there it cannot find."
    ]
    known = {"Cards": list(links.cards.items()), "Variants": list(links.variants.items())}
    return Page(INDEX, "Shared measurements", introduction, known, groups)


def _day(checked: Checked, which: Any) -> str:
    return str(which((record.started for record in checked.records), default="")).partition("T")[0]


def _card(device: str, file: str, gathered: Gathered, tables: Tables) -> Page:
    groups = [("", [tables.side_by_side(lambda row: row.device == device)])]
    for checked in gathered.bundles:
        content = tables.content(checked, device)
        if content.ladders:
            groups.append((f"Bundle {checked.name}", sections(content)))
    return Page(file, device, groups=groups, folded=True)


def _variant(name: str, file: str, tables: Tables, variants: Mapping[str, Variant], links: _Links) -> Page:
    variant = variants.get(name)
    introduction = variant.explanation.split("\n\n") if variant else ["This version of gravbench has no such variant."]
    family = {
        "Derived from": [parent] if (parent := tables.parents.get(name)) else [],
        "Steps from here": [child for child, above in tables.parents.items() if above == name],
    }
    known = {
        label: [(other, links.variants[other]) for other in others if other in links.variants]
        for label, others in family.items()
    }
    rows = tables.side_by_side(lambda row: row.record.variant == name)
    return Page(file, name, introduction, known, [("", [rows])])


def _choices(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return what the fields of a table choose from, by the names of the rows' attributes; none where all are equal."""
    values = {
        "card": list(dict.fromkeys(row.device for row in rows)),
        "n": [str(n) for n in sorted({row.record.n for row in rows})],
        "bundle": list(dict.fromkeys(row.checked.name for row in rows)),
    }
    return {name: offered for name, offered in values.items() if len(offered) > 1}
