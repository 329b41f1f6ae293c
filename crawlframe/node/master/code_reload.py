"""Renewal: which version of the spiders' code lives on this node, and which is on trial."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from crawlframe import faults
from crawlframe.conf import Settings
from crawlframe.frontier.nodes import CodeState
from crawlframe.node.child_process import Child, describe_exit
from crawlframe.node.handshake import Welcome
from crawlframe.node.master.template import Loaded, Template

log = logging.getLogger(__name__)

AGAIN = 0.2  # seconds before a tree that changed while it was read is read again
SILENCE = (2.0, 10.0)  # seconds beyond the time limit of an import that a template may be silent
UNSTEADY = 5  # times the code may change while it is loaded until that is the problem
KILLS = 3  # times a template may be killed from outside until its code is blamed
MAX_PROBLEM = 16384  # characters of tracebacks that the cluster is told


class Renewal:
    """Starts templates with ``spawn`` (given the modules to leave out, whether there is nothing to
    fall back on, and whether code that does not stand still will do) and judges what they load.

    ``changed`` is called whenever ``state`` or ``live`` changed. A version is refused when it
    breaks a module that works in the live one; when nothing lives, whatever loads is accepted."""

    def __init__(
        self,
        settings: Settings,
        spawn: Callable[[Mapping[str, str], bool, bool], Template],
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._spawn = spawn
        self._changed = changed
        self.live: Template | None = None
        self.accepted: Loaded | None = None  # what lived last, also when its template has died
        self.strict = False  # nothing lives here, but a master beside this one does
        self._known: frozenset[str] = frozenset()  # modules that are broken in what lives
        more = min(max(SILENCE[0], settings.load_timeout), SILENCE[1])
        self._silence = settings.load_timeout + more  # seconds
        self.state = CodeState(changed_at=time.time())
        self._trial: Template | None = None
        self._deadly: dict[str, str] = {}  # modules that killed the process that imported them
        self._wanted: float | None = None  # a reload is asked for; when its change was written
        self._not_before = 0.0
        self._kills = 0  # templates that died one after another for no fault of a module
        self._unsteady = 0  # templates one after another under which the code changed
        self._counting = False  # the seconds of the reload run until a worker is ready

    def heed(self, kind: str, *rest: Any) -> bool:
        """Does what the supervisor says, if it is for this room."""
        match kind:
            case "prepare":
                self.prepare(*rest)
            case "forget":
                self.forget()
            case "ask":
                self.ask(*rest)
            case "refuse":
                self.refuse(*rest)
            case "pulled":
                self.pulled(*rest)
            case _:
                return False
        return True

    def prepare(self, changed_at: float) -> None:
        """The code on disk is changing (time.monotonic()). What it holds now is loaded ahead; it is
        judged only when all is quiet and it is that still."""
        if self._trial is None and self._wanted is None and self.live is not None:
            self._begin(changed_at, ahead=True)

    def forget(self) -> None:
        """What is loaded ahead will not be asked for."""
        if self._trial is not None and self._trial.ahead:
            self._trial.end()
            self._trial = None

    def ask(self, changed_at: float, digest: str, revision: str) -> None:
        """The code on disk changed and is this now. One trial at a time: what changes during one
        gets another."""
        self._deadly.clear()
        trial = self._trial
        if trial is None or not trial.ahead:
            self._wanted = changed_at
            return
        trial.ahead, trial.changed_at, trial.expected = False, changed_at, (digest, revision)
        self._tell(state="checking", candidate=trial.version)
        if trial.loaded is not None:
            self._judge(trial, trial.loaded)

    def follow(self, welcome: Welcome) -> None:
        """Takes up where the master that is to be followed stands, if there is one."""
        self.strict = welcome.broken is not None
        self._known = frozenset(welcome.broken or ())
        self._wanted = welcome.changed_at
        self._tell(
            follows=welcome.follows,
            pulled=welcome.pulled,
            pull_problem=welcome.pull_problem,
            rollout=welcome.answered,
        )

    def pulled(self, revision: str, problem: str, rollout: int) -> None:
        """The checkout was brought to a revision, or was not."""
        self._tell(pulled=revision, pull_problem=problem, rollout=rollout)

    def turn(self, workers: int) -> None:
        """Starts a trial when there is reason for one. ``workers``: how many work now."""
        now = time.monotonic()
        trial = self._trial
        if trial is not None:
            limit = self._silence
            if now - trial.child.last_beat > limit and trial.child.staying:
                trial.kill()
            return
        if now < self._not_before:
            return
        if self._wanted is not None:
            self._begin(self._wanted)
        elif self.live is None and (
            self.accepted is None or self.state.state != "refused" or not workers
        ):
            if not workers:
                self.accepted = None  # better some of what the disk holds than nothing
            self._begin(now)

    def _begin(self, changed_at: float, *, ahead: bool = False) -> None:
        self._wanted = None
        cold = self.accepted is None and not self.strict
        self._trial = self._spawn(self._deadly, cold, cold and self._unsteady >= UNSTEADY)
        self._trial.changed_at, self._trial.ahead = changed_at, ahead
        if not ahead:
            self._tell(state="checking" if self.accepted else "loading", candidate="")

    # -- what templates say -----------------------------------------------------------------------

    def hear(self, child: Child, kind: str, *rest: Any) -> None:
        trial = self._trial
        if trial is None or trial.child is not child:
            return
        if kind == "trying":
            trial.version = rest[0]
            if not trial.ahead:
                self._tell(candidate=trial.version)
        elif kind == "loading":
            trial.loading = rest[0]
        elif kind == "unsteady":
            if trial.ahead:
                self.forget()
            else:
                self._on_unsteady(trial, *rest)
        elif kind == "ready":
            loaded = msgspec.convert(rest[0], Loaded, strict=False)
            trial.loaded, trial.version = loaded, loaded.version
            if not trial.ahead:
                self._judge(trial, loaded)

    def _on_unsteady(self, trial: Template, problem: str) -> None:
        cold = self.accepted is None and not self.strict
        self._unsteady += 1
        if cold and self._unsteady > UNSTEADY:
            log.warning("%s; it is taken as it is", problem)
            return  # the template goes on
        trial.orders.close()
        trial.child.retiring_since = time.monotonic()  # it ends by itself
        if cold or self._unsteady < UNSTEADY:
            log.info("%s; once more", problem)
            self._again(trial)
            return
        self._unsteady = 0
        self._trial = None
        self.refuse(trial.version, f"{problem}, {UNSTEADY} times one after another")

    def _judge(self, trial: Template, loaded: Loaded) -> None:
        self._trial = None
        if trial.expected not in (None, (loaded.digest, loaded.revision)):
            trial.end()  # it was loaded ahead, and the code is another by now
            self._begin(trial.changed_at)
            return
        self._kills = self._unsteady = 0
        broken = loaded.broken.items()
        worse = {module: text for module, text in broken if module not in self._known}
        if worse and (self.accepted or self.strict):
            self._refuse(trial, worse)
        elif self.accepted == loaded:
            trial.loaded = self.accepted  # so its workers count as those of the template before
            if self.live is None:
                self.live = trial
            else:
                trial.end()
            log.info("version %s is what lives already", loaded.version)
            self._tell(state="live", candidate="", problem=_texts(loaded.broken))
        else:
            self._accept(trial, loaded)

    def _accept(self, trial: Template, loaded: Loaded) -> None:
        faults.at("reload.ready")
        for module, text in loaded.broken.items():
            log.error("spider module %s is not loaded: %s", module, text)
        if self.live is not None:
            self.live.end()
        self._counting = True
        self.live, self.accepted, self.strict = trial, loaded, False
        self._known = frozenset(loaded.broken)
        self._tell(
            state="live", version=loaded.version, candidate="", problem=_texts(loaded.broken)
        )

    def worker_ready(self, child: Child) -> None:
        """The first worker of a version ends its reload."""
        if self._counting and self.live is not None and child.origin is self.live.loaded:
            self._counting = False
            seconds = time.monotonic() - self.live.changed_at
            first = self.state.reloads == 0 and self.state.seconds == 0.0
            log.info("version %s is live after %.2f s", self.state.version, seconds)
            self._tell(seconds=round(seconds, 3), reloads=self.state.reloads + (not first))

    def _refuse(self, trial: Template, broken: dict[str, str]) -> None:
        trial.end()
        self.refuse(trial.version, _texts(broken))

    def refuse(self, version: str, problem: str) -> None:
        """Records that a version does not go live and why."""
        log.error("version %s is refused, %s goes on: %s", version, self.state.version, problem)
        self._tell(state="refused", candidate=version, problem=problem[:MAX_PROBLEM])

    # -- dying ------------------------------------------------------------------------------------

    def bury(self, child: Child, code: int | None) -> None:
        """A template died."""
        if self.live is not None and self.live.child is child:
            log.warning("the template of version %s died; it is loaded again", self.live.version)
            self.live = None
            self._not_before = time.monotonic() + AGAIN
        elif self._trial is not None and self._trial.child is child:
            self._lose(self._trial, code)

    def _lose(self, trial: Template, code: int | None) -> None:
        how = "ended" if code is None else f"died ({describe_exit(code)})"
        if not trial.child.staying:
            how = f"said nothing for {self._silence:g} s and was killed"
        trial.orders.close()
        if trial.ahead:
            self._trial = None
            return
        killed = code == -signal.SIGKILL and trial.child.staying
        self._kills += 1
        if self._kills <= KILLS and (killed or not trial.loading):
            self._again(trial)  # a person, or lack of memory: not the code's fault at once
            return
        if trial.loading:
            text = f"{trial.loading}: the process that imports it {how}"
        else:
            text = f"the process that loads the spiders {how}; the log says more"
            if self.accepted is None and not self.strict:
                self._again(trial)  # nothing else can be done, with pauses
                return
        if trial.loading in self._known or not (self.accepted or self.strict):
            log.error("spider module %s", text)
            self._deadly[trial.loading] = text
            self._again(trial)
        else:
            self._trial = None
            self._kills = 0
            self.refuse(trial.version, text)

    def _again(self, trial: Template) -> None:
        self._trial = None
        self._wanted = trial.changed_at if self._wanted is None else self._wanted
        self._not_before = time.monotonic() + AGAIN

    def end(self) -> None:
        """No more trials; the templates end."""
        for template in (self.live, self._trial):
            if template is not None:
                template.end()
        self.live = self._trial = None

    def _tell(self, **changes: Any) -> None:
        if changes.get("state", self.state.state) != self.state.state:
            changes["changed_at"] = time.time()
        self.state = msgspec.structs.replace(self.state, **changes)
        self._changed()


def _texts(broken: Mapping[str, str]) -> str:
    return "\n\n".join(broken.values())[:MAX_PROBLEM]
