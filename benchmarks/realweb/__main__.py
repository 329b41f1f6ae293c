"""``python -m benchmarks.realweb [DIRECTORY …] [-- crawl options]``"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.lab.nginx import Nginx
from benchmarks.realweb.charsets import LOCATIONS
from benchmarks.realweb.crawls import site_spider, wget
from benchmarks.realweb.report import SHOWN, Report, wrong_titles

DOCUMENTATION = (  # of the Debian packages python3-doc, postgresql-doc-15 and apache2-doc
    "/usr/share/doc/python3.11/html",
    "/usr/share/doc/postgresql-doc-15/html",
    "/usr/share/doc/apache2-doc/manual",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.realweb",
        description="Serves directories of HTML with nginx, lets wget and spiders/site.py crawl "
        "them, and prints how the sets of pages differ. Exit code 1 when they do.",
        epilog="What follows -- goes to `manage.py crawl`, for instance -- --workers 2.",
    )
    parser.add_argument("directory", nargs="*", type=Path, help="three of Debian's manuals")
    parser.add_argument("--all", action="store_true", help="show every difference")
    parser.add_argument("--titles", action="store_true", help="check titles with BeautifulSoup too")
    words, options = sys.argv[1:], []
    if "--" in words:
        place = words.index("--")
        words, options = words[:place], words[place + 1 :]
    arguments = parser.parse_args(words)
    directories = arguments.directory or [Path(name) for name in DOCUMENTATION]
    missing = [path for path in directories if not path.is_dir()]
    if missing:
        parser.error(f"no such directory: {', '.join(map(str, missing))}; install the package")
    try:
        equal = [compare(path, arguments.all, arguments.titles, options) for path in directories]
    except (OSError, RuntimeError) as error:
        print(f"realweb: {error}", file=sys.stderr)
        return 2
    return 0 if all(equal) else 1


def compare(root: Path, show_all: bool, titles: bool, options: list[str]) -> bool:
    """Prints the comparison for one directory; returns whether the sets are equal."""
    print(f"== {root}", flush=True)
    with tempfile.TemporaryDirectory(prefix="realweb-") as name:
        work = Path(name)
        with Nginx(root, work, locations=LOCATIONS) as nginx:
            theirs = wget(nginx, work)
            ours = site_spider(nginx, work, options)
        report = Report(theirs, ours, 1 << 30 if show_all else SHOWN)
        print("\n".join(report.lines()), flush=True)
        if titles:
            wrong = wrong_titles(ours, root)
            print(f"titles read otherwise than by BeautifulSoup: {len(wrong)}")
            print("".join(f"    {line}\n" for line in wrong), end="", flush=True)
    return report.equal


if __name__ == "__main__":
    sys.exit(main())
