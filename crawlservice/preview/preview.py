"""Preview: two revisions of the code on kept pages. Nothing is fetched, and nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from django.apps import apps
from django.db import connections

from crawlframe.base.program import command
from crawlframe.code.checkout import Checkout
from crawlframe.code.package import find_package
from crawlframe.conf import Settings, available_cpus
from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.preview.comparison import SpiderComparison, Tried
from crawlframe.preview.rules import PreviewRules
from crawlframe.preview.run import PreviewRun
from crawlframe.preview.side import Order, Side, Surroundings, TryPage, TryRecorded
from crawlframe.preview.tree import Tree, exported, resolved, work_tree
from crawlframe.recorded.folder import HEAD, Recording, recordings_of
from crawlservice.connections.read_only import read_only
from crawlservice.models import Page
from crawlservice.pages.to_try import pages_to_try, spiders_with_pages
from crawlservice.preview.result import LIVE, Preview
from crawlservice.tasks.arguments.secrets import revealed

DEADLINE = 10.0  # seconds that a page may take
MAX_NAMES = 10  # names in a message


class NothingToPreview(CrawlframeError):
    """No page is kept, or no spider is as asked for."""


@dataclass
class PreviewOrder:
    """``revision``: a branch, tag or commit; "" for the files as they are. ``against``: another, or
    ``live``. ``spiders``: patterns of names; none for those whose code differs. ``unchanged``: also
    those whose code is the same. ``pages``: of each spider, at most. ``progress`` shows
    how many pages are done. ``watch`` gets the preview so far, after each page."""

    project: Path
    settings: Settings
    revision: str = ""
    against: str = LIVE
    spiders: Sequence[str] = ()
    pages: int = 200
    unchanged: bool = False
    deadline: float = DEADLINE
    progress: Callable[[str], AbstractContextManager[Callable[[float], None]]] = lambda what: (
        nullcontext(lambda number: None)
    )
    watch: Callable[[Preview], None] = lambda preview: None

    def run(self) -> Preview:
        """Raises ArgumentError, GitError, NothingToPreview, PreviewFailed, RulesError and
        django.db.Error."""
        checkout = Checkout.around(self.project)
        if checkout is None:
            raise ArgumentError(f"{self.project} is in no git checkout, so it has no revisions")
        notes: list[str] = []
        with ExitStack() as stack:
            trees = [
                stack.enter_context(tree)
                for tree in (self._old(checkout, notes), self._new(checkout))
            ]
            recorded = trees[1].place(recordings_of(self.settings))
            kept = self._with_pages(recorded)
            connections.close_all()  # a fork would use them too
            old, new = (stack.enter_context(self._side(tree)) for tree in trees)
            for side in (old, new):
                side.wait()
            notes += [f"{old.tree.name}: {problem}" for problem in old.problems]
            package = find_package(self.settings.spiders)
            rules = PreviewRules.read(package and trees[1].place(package))
            preview = Preview(
                trees[0].name, trees[1].name, notes=notes, commit=trees[1].commit, rules=rules
            )
            self._choose(preview, kept, old, new, rules)
            self._try(preview, recorded, old, new)
            preview.judge()
            preview.regressions += rules.unloaded(
                new.problems, [*old.problems, *(s.problem for s in preview.spiders)]
            )
            return preview

    def _with_pages(self, recorded: Path) -> set[str]:
        """The spiders that have pages, kept or ``recorded``. Raises NothingToPreview."""
        kept = {*spiders_with_pages(), *(path.parent.name for path in recorded.glob(f"*/{HEAD}"))}
        if not kept:
            raise NothingToPreview(
                "no good page of any spider is kept or recorded; nodes keep a sample of each crawl "
                f"(docs/howto/kept-pages.md), and {command('spider record NAME')} records pages"
            )
        for pattern in self.spiders:
            if not any(fnmatchcase(name, pattern) for name in kept):
                some = ", ".join(sorted(kept)[:MAX_NAMES])
                raise NothingToPreview(f"no page of spider {pattern!r} is kept; there are: {some}")
        return kept

    def _new(self, checkout: Checkout) -> AbstractContextManager[Tree]:
        if self.revision:
            return _tree(checkout, self.revision)
        return nullcontext(work_tree(self.project, checkout))

    def _old(self, checkout: Checkout, notes: list[str]) -> AbstractContextManager[Tree]:
        """``live``: the revision of the nodes, as the newest page in the ledger says; HEAD if that
        tells no commit."""
        if self.against != LIVE:
            return _tree(checkout, self.against)
        version = Page.objects.order_by("-pk").values_list("version", flat=True).first() or ""
        commit, _, changed = version.partition("+")
        if not commit:
            notes.append("no page tells the commit of the nodes; compared with HEAD")
            return _tree(checkout, "HEAD")
        if not checkout.resolve(commit):
            raise ArgumentError(
                f"live is {commit}, a commit that {checkout.root} lacks: git fetch --all, or name "
                "another: --against COMMIT"
            )
        if changed:
            notes.append(f"the nodes run {commit} with changes that are in no commit")
        return _tree(checkout, commit, f"{commit} (live)")

    def _side(self, tree: Tree) -> Side:
        apps_here = {one.name.partition(".")[0] for one in apps.get_app_configs()}
        around = Surroundings(read_only, revealed, apps_here)
        return Side(tree, self.project, self.settings, around)

    def _choose(
        self, preview: Preview, kept: set[str], old: Side, new: Side, rules: PreviewRules
    ) -> None:
        """Takes the spiders that are compared, also those that the new version lacks."""
        before, after = old.loaded.marks, new.loaded.marks
        for name in sorted(before.keys() | after.keys()):
            if self.spiders and not any(fnmatchcase(name, one) for one in self.spiders):
                continue
            if before.get(name) == after.get(name) and not self.unchanged:
                preview.same += 1
            elif name in before and (name in kept or name not in after):
                problem = "" if name in after else _lack(new)
                found = SpiderComparison(name, rules.ignores(name), problem=problem)
                preview.spiders.append(found)
            else:
                preview.untried.append(name)

    def _try(self, preview: Preview, recorded: Path, old: Side, new: Side) -> None:
        spiders = {one.spider: one for one in preview.spiders if not one.problem}
        if not spiders:
            return
        with self.progress("trying pages") as advance:  # after the forks: it starts a thread

            def take(page: Order, before: Tried, after: Tried, again: Tried | None) -> bool:
                done = spiders[page.spider].take(page.place, before, after, again)
                advance(done)
                self.watch(preview)
                return done

            lanes = max(1, available_cpus() // 2)
            PreviewRun(old, new, lanes, self.deadline, take).run(
                _pages(spiders, recorded, self.pages)
            )


def _tree(checkout: Checkout, name: str, shown: str = "") -> AbstractContextManager[Tree]:
    commit, told = resolved(checkout, name)
    return exported(checkout, commit, shown or told)


def _pages(spiders: Iterable[str], recorded: Path, limit: int) -> Iterator[Order]:
    """Kept pages, or recorded ones of a spider without these. Raises RecordingError."""
    for spider in spiders:
        kept = False
        for arguments, page in pages_to_try(spider, limit):
            kept = True
            yield TryPage(0, spider, arguments, page)
        folder = recorded / spider
        if not kept and (folder / HEAD).exists():
            for name, replayed in Recording.read(folder).pages.items():
                yield TryRecorded(0, spider, str(folder), name, replayed.url)


def _lack(side: Side) -> str:
    """Why a version lacks a spider."""
    if not side.problems:
        return f"{side.tree.name} does not have it"
    return f"it does not load in {side.tree.name}: {'; '.join(side.problems[:MAX_NAMES])}"
