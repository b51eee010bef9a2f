"""What MkDocs calls: pages made from the code are added, and links that leave docs/ get the files that they name."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import command_pages
import configuration_page
import course_pages
import history_site
import notebook_page
import record_page
import source_claims
import variant_page
from mkdocs.structure.files import File, Files

from gravbench.live.page import page as live_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "reference/commands.md": command_pages.page,
    "reference/configuration.md": configuration_page.page,
    "reference/records.md": record_page.page,
    "reference/variants.md": variant_page.page,
    "notebook.md": notebook_page.page,
}
MOVED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents of the root of the checkout, and the pages that they are here."""
CLAIMS = "<!-- made claims -->"
EXERCISES = "<!-- exercises -->"
"""Where the list of the exercises of the course stands."""
TIMES = "<!-- times -->"
"""Where a page has the times of the exercises."""
LIVE = "<!-- live page -->"
"""Where a page of the site leads to the one that runs the ladder in a browser."""
HISTORY = "<!-- history -->"
"""Where a page leads to the site that asv makes of the committed results."""
SENTINELS = "<!-- sentinels -->"
"""Where a page has what asv measured of the sentinels."""
FILES = "files"
"""The folder of the site for files from outside docs/ that a page links to."""
MOST_BYTES = 2_000_000
"""Of a file that is copied; a larger one is named only."""
LINK = re.compile(r"(!?\[[^\]]*\]\()((?:\.\./)+[^)#\s]+)(#[^)]*)?(\))")
REFERENCE = re.compile(
    r"((?:\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?: ms| %)?(?: ± [\d,]+ %(?: `\*`)?)?) ?<!-- ([^>]*?): (.*?) -->"
)
VERDICT = re.compile(r"\s*<!-- [^>]*?: (?:FASTER|SLOWER|SAME|UNCLEAR): .*? -->")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code."""
    for path, made in PAGES.items():
        files.append(File.generated(config, path, content=made()))
    for path, content in course_pages.pages().items():
        files.append(File.generated(config, path, content=content))
    files.append(File.generated(config, course_pages.LIVE_PAGE, content=live_page()))
    for name, path in MOVED.items():
        text = re.sub(r"\]\((?!docs/|\w+:|#)", "](../", (ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, path, content=text.replace("](docs/", "](")))
    for name in sorted(linked_outside(files)):
        files.append(File.generated(config, f"{FILES}/{name}", abs_src_path=str(ROOT / name)))
    return files


def linked_outside(files: Files) -> set[str]:
    """Return the files of the checkout that pages link to and docs/ does not have."""
    found = set()
    for file in files.documentation_pages():
        for link in LINK.finditer(file.content_string):
            found.add(outside(file.src_uri, link[2]))
    return {path for path in found if path and path not in MOVED and copied(path)}


def copied(path: str) -> bool:
    """Tell whether the site has a copy of a file of the checkout: a link to it leads there."""
    return (ROOT / path).is_file() and (ROOT / path).stat().st_size <= MOST_BYTES


def outside(page: str, target: str) -> str | None:
    """Return where in the checkout a link of a page leads, None for one to another page."""
    path = (ROOT / "docs" / page).parent / target
    resolved = path.resolve()
    return None if resolved.is_relative_to(ROOT / "docs") else str(resolved.relative_to(ROOT))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """Fill in what is made from records, lead links out of docs/ to copies, and show which record a number is from."""
    text = markdown.replace(CLAIMS, source_claims.table()) if CLAIMS in markdown else markdown
    text = text.replace(EXERCISES, course_pages.table()).replace(TIMES, course_pages.table_of_times())
    up = "../" * page.file.src_uri.count("/")
    button = f"[Run the ladder on your own GPU]({up}{course_pages.LIVE_PAGE}){{ .md-button .md-button--primary }}"
    text = text.replace(LIVE, button)
    if HISTORY in text:
        text = text.replace(HISTORY, history_site.sentence(up)).replace(SENTINELS, history_site.sentinels())

    def lead(link: re.Match[str]) -> str:
        path = outside(page.file.src_uri, link[2])
        if path is None:
            return link[0]
        if path in MOVED:
            return f"{link[1]}{up}{MOVED[path]}{link[3] or ''}{link[4]}"
        if not copied(path):
            return f"`{path}`"
        return f"{link[1]}{up}{FILES}/{path}{link[4]}"

    return VERDICT.sub("", REFERENCE.sub(from_record, LINK.sub(lead, text)))


def on_post_build(config: Any) -> None:
    """Add the site that asv makes; say why, where it cannot be made."""
    if why := history_site.publish(Path(config["site_dir"])):
        logging.getLogger("mkdocs.hooks").info("The history is not part of the site: %s", why)


def from_record(told: re.Match[str]) -> str:
    """Let a number say on which record it rests, where the pointer stays on it."""
    number, run, what = told[1], told[2], " ".join(told[3].split()).replace('"', "'")
    return f'<span title="{run}: {what}">{number}</span>'
