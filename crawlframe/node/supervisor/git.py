"""Git: moves a node's own checkout to a revision of the remote branch that it follows."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from crawlframe.base.program import command
from crawlframe.code.checkout import DIGITS, Checkout, GitError
from crawlframe.errors import CrawlframeError

log = logging.getLogger(__name__)

FETCH = 60.0  # seconds a fetch may take
MOVE = 300.0  # seconds that writing the files of a large checkout may take
GIT_BUSY_TIMEOUT = 5.0  # seconds for which another git may work in the checkout
REVISION = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
MAX_PATHS = 1000  # paths on a command line
MAX_FILES = 3  # files named in one message
MAX_PROBLEM, MAX_REASON = 600, 200  # characters of a message, and of git's own words in it


class PullRefused(CrawlframeError):
    """The checkout stays as it is; the message states the reason and how to fix it."""


class Pulled(NamedTuple):
    """The result of a pull: the commit that is checked out now (40 hex digits, "" when unknown),
    and why it is not the requested one ("" when it is)."""

    revision: str
    problem: str


class Follower:
    """Follows one branch of one remote, both as the checkout's owner configured them.

    Nothing of the repository is run: no hooks, no submodules, no remote helper commands. Git does
    not prompt for passwords: credentials must be set up (an ssh key, a credential helper)."""

    def __init__(self, checkout: Checkout, remote: str, branch: str) -> None:
        self._checkout = checkout
        self._remote = remote
        self._branch = branch
        self._tip = f"refs/remotes/{remote}/{branch}"
        self._left = ""  # the tip from which it had to go back

    @classmethod
    def of(cls, checkout: Checkout, branch: str, *, check: bool = True) -> Follower:
        """Follows ``branch`` of the remote that the checkout has configured for it (branch.NAME.
        remote), or else of ``origin``. Raises PullRefused when no pull could succeed."""
        try:
            remote = checkout.git("config", "--get", f"branch.{branch}.remote").strip()
        except GitError:
            remote = "origin"
        follower = cls(checkout, remote, branch)
        if check:
            follower.check()
        return follower

    @property
    def name(self) -> str:
        """``origin/main``."""
        return f"{self._remote}/{self._branch}"

    def check(self) -> None:
        """Raises PullRefused when remote, branch or checkout do not allow a pull to succeed. Does
        not contact the remote."""
        with _in_plain_words():
            self._check_names()
            self._check_branch()

    def pull(self, revision: str | None = None, *, back: bool = False) -> Pulled:
        """Fetches, and fast-forwards the checkout to ``revision`` (at least 4 hex digits), or to
        the tip of the branch when it is None. With ``back``, the revision may also be an older one;
        the tip that it leaves is pulled again only by name, or when the branch has moved on.
        It must be part of the remote branch, and the checkout must not have changes of its own.

        Blocks for up to FETCH + MOVE seconds; never raises. Git checks for obstacles before it
        writes a file, and moves HEAD last. If it fails in between (a full disk), its writes are
        undone; if the machine dies in between, files of both revisions remain, with git's
        index.lock, and the next pull is refused until the checkout is repaired."""
        try:
            with _in_plain_words(), self._alone():
                self._check_names()
                self._check_branch()
                self._check_clean()
                self._fetch()
                tip, target = self._target(None), self._target(revision)
                if revision is not None or tip != self._left:
                    self._move(target, back)
                    self._left = tip if back and target != tip else ""
        except PullRefused as error:
            return Pulled(self._checkout.revision(), str(error))
        return Pulled(self._checkout.revision(), "")

    # -- preconditions ----------------------------------------------------------------------------

    def _check_names(self) -> None:
        """Names come from the command line: they must not be options or addresses."""
        remotes = self._git("remote").split()
        if self._remote not in remotes:
            known = f"it has {', '.join(remotes)}" if remotes else "it has none; git remote add one"
            raise PullRefused(f"the checkout {self._root} has no remote {self._remote!r}: {known}")
        try:
            self._git("check-ref-format", f"refs/heads/{self._branch}")
        except GitError:
            raise PullRefused(f"{self._branch!r} is not a valid branch name") from None

    def _check_branch(self) -> None:
        try:
            branch = self._git("symbolic-ref", "--quiet", "--short", "HEAD").strip()
        except GitError:
            branch = ""
        if branch != self._branch:
            where = f"on branch {branch!r}" if branch else "on no branch"
            raise PullRefused(
                f"the checkout {self._root} is {where} and follows {self.name}; run there: "
                f"git switch {self._branch}"
            )
        if not self._checkout.revision():
            raise PullRefused(
                f"the checkout {self._root} has no commit yet; run there: git pull {self._remote} "
                f"{self._branch}"
            )

    def _check_clean(self) -> None:
        deadline = time.monotonic() + GIT_BUSY_TIMEOUT
        while self._checkout.busy:
            if time.monotonic() > deadline:
                raise PullRefused(
                    f"another git is at work in {self._root}, or died there: when none runs, look "
                    f"at git status and remove {self._checkout.lock}"
                )
            time.sleep(0.05)
        if changed := self._checkout.changes():
            raise PullRefused(
                f"the checkout {self._root} has local changes: {_some(changed)}; commit and push "
                "them, revert them, or add them to .gitignore"
            )

    # -- fetch ------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        # With +, so that our copy is right even after the branch was rewritten.
        refspec = f"+refs/heads/{self._branch}:{self._tip}"
        options = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-prune", "--refmap=")
        words = ("fetch", *options, "--", self._remote, refspec)
        try:
            self._git(*words, timeout=FETCH, env=self._unattended())
        except GitError as error:
            if "couldn't find remote ref" in str(error):
                raise PullRefused(
                    f"remote {self._remote!r} has no branch {self._branch!r}; push it, or name "
                    "another with --follow"
                ) from None
            raise PullRefused(
                f"{self.name} could not be fetched: {str(error)[:MAX_REASON]}; run git fetch "
                f"{self._remote} in {self._root} as this node's user until it no longer prompts"
            ) from None

    def _unattended(self) -> dict[str, str]:
        """Environment that keeps ssh from prompting. A command set by the owner is left alone."""
        env = {"SSH_ASKPASS": ""}
        commanded = {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys()
        if not commanded and not self._configured("core.sshCommand"):
            env["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
        return env

    def _configured(self, name: str) -> bool:
        try:
            return bool(self._git("config", "--get", name))
        except GitError:
            return False

    # -- move -------------------------------------------------------------------------------------

    def _target(self, revision: str | None) -> str:
        """The commit to move to, 40 hex digits, which is in the remote branch."""
        if revision is None:
            return self._git("rev-parse", "--verify", f"{self._tip}^{{commit}}").strip()
        if not REVISION.fullmatch(revision):
            raise PullRefused(f"{revision!r} is not a revision: give 4 to 40 hex digits")
        try:
            words = ("rev-parse", "--verify", f"{revision}^{{commit}}")
            target = self._git(*words).strip()
        except GitError as error:
            if "ambiguous" in str(error):
                raise PullRefused(f"revision {revision} is ambiguous; give all 40 digits") from None
            target = ""
        # A branch or tag may be named like a short revision, and git would prefer that.
        if not target.startswith(revision.lower()) or not self._checkout.contains(
            self._tip, target
        ):
            raise PullRefused(
                f"revision {revision} is not in {self.name}; push it there first, or roll out one "
                "that is"
            )
        return target

    def _move(self, target: str, back: bool) -> None:
        head = self._checkout.revision()
        if not self._checkout.contains(self._tip, head):
            raise PullRefused(
                f"the checkout {self._root} has commits that are not in {self.name}; push them, or "
                f"run there: git reset --keep {self._tip.removeprefix('refs/remotes/')}"
            )
        if target == head:
            return
        ahead = self._checkout.contains(target, head)
        if not ahead and not self._checkout.contains(head, target):
            raise PullRefused(
                f"{target[:DIGITS]} and what is checked out, {head[:DIGITS]}, are on two sides of "
                "a merge; roll out the merge or a later revision"
            )
        if not ahead and not back:
            raise PullRefused(
                f"{target[:DIGITS]} is older than what is checked out, {head[:DIGITS]}; to go back "
                f"to it: {command('node rollout --back')}"
            )
        if in_the_way := self._in_the_way(head, target):
            raise PullRefused(
                f"files that git ignores in {self._root} are in the way of {target[:DIGITS]}: "
                f"{_some(in_the_way)}; move them"
            )
        how = ("merge", "--ff-only", "--no-autostash", "--no-overwrite-ignore", "--quiet")
        try:
            self._git(*(how if ahead else ("reset", "--keep", "--quiet")), target, timeout=MOVE)
        except GitError as error:
            self._take_back(head, target, error)
            raise
        log.info("the checkout %s went from %s to %s", self._root, head[:DIGITS], target[:DIGITS])

    def _in_the_way(self, head: str, target: str) -> list[str]:
        """The ignored files that git would silently overwrite when it goes back."""
        there = [path for path in self._added(head, target) if os.path.lexists(self._root / path)]
        if not there:
            return []
        words = (f":(top,literal){path}" for path in there[:MAX_PATHS])
        return [
            path
            for path in self._git("ls-files", "--others", "-z", "--", *words).split("\0")
            if path
        ]

    def _added(self, head: str, target: str) -> list[str]:
        words = ("diff", "--name-only", "--no-renames", "--diff-filter=A", "-z", head, target)
        return [path for path in self._git(*words).split("\0") if path]

    def _take_back(self, head: str, target: str, reason: GitError) -> None:
        """Undoes a move that failed half way. The checkout was clean before, so all changes are
        git's."""
        if self._checkout.revision() != head or not self._checkout.changes():
            return
        log.warning("undoing a pull that failed half way, in %s", self._root)
        try:
            self._git("reset", "--hard", "--quiet", head, timeout=MOVE)
            for path in set(self._added(head, target)) & set(self._checkout.changes()):
                (self._root / path).unlink(missing_ok=True)
        except (GitError, OSError) as error:
            raise PullRefused(
                f"{reason}; files of both revisions are in {self._root} now ({error}): see git "
                "status there"
            ) from None

    # -- small ------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nodes that share a checkout pull one after another."""
        with self._checkout.lock.with_name("crawlframe-follow.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @property
    def _root(self) -> Path:
        return self._checkout.root

    def _git(self, *words: str, **options: object) -> str:
        return self._checkout.git(*words, **options)  # type: ignore[arg-type]


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Turns any failure into a refusal with a one-line message."""
    try:
        yield
    except (CrawlframeError, OSError) as error:
        raise PullRefused(" ".join(str(error).split())[:MAX_PROBLEM]) from None


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - MAX_FILES} more" if len(paths) > MAX_FILES else ""
    return ", ".join(paths[:MAX_FILES]) + more
