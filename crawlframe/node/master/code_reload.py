"""CodeReload: the live version of the spiders' code on this node, and the version on trial."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping

import msgspec

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlframe.frontier.cluster.decisions import Decision
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.items.encode import item_adapter
from crawlframe.node.child_process import Child
from crawlframe.node.master.recorded_check import RecordedCheck
from crawlframe.node.master.reload_report import ReloadReport
from crawlframe.node.master.supervisor_link import SupervisorLink
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import (
    CodeLoaded,
    FromChecker,
    FromTemplate,
    GitBusy,
    ImportingModule,
    LoadAll,
    LoadingVersion,
    Unsteady,
)
from crawlframe.node.signals import describe_exit
from crawlframe.node.supervisor_messages import InitialState, Reload

log = logging.getLogger(__name__)

UNFIT_PAUSE = 5.0  # seconds before code that no worker can run is loaded again
RETRY_PAUSE = 0.2  # seconds before a tree that changed while it was read is read again
# Seconds that a template may be silent beyond the time limit of an import: at least, at most.
TEMPLATE_SILENCE = (2.0, 10.0)
MAX_CHANGES = 5  # times the code may change while it is loaded before the version is refused
KILLS = 3  # times a template may be killed from outside before its code is blamed
MAX_PROBLEM = 16384  # characters of tracebacks that are sent to the cluster


class CodeReload:
    """Starts templates among the processes of the master (``pool``) and judges the versions that
    they load.

    ``reports`` has its state for the supervisor and the cluster. A version is refused when it
    breaks a module that works in the live one, or when recorded pages fail; when none is live, any
    version that loads is accepted. ``now`` is time.monotonic()."""

    def __init__(self, settings: Settings, pool: WorkerPool, link: SupervisorLink | None) -> None:
        self._pool = pool
        self.reports = ReloadReport(link)
        self.live: Template | None = None
        self.strict = False  # none is live here, but the master that this one replaces has one
        self._known: frozenset[str] = frozenset()  # modules that are broken in the live version
        more = min(max(TEMPLATE_SILENCE[0], settings.load_timeout), TEMPLATE_SILENCE[1])
        self._silence = settings.load_timeout + more  # seconds
        self._trial: Template | None = None
        self._check = RecordedCheck(pool, settings.check_timeout, self._on_checked)
        self._deadly: dict[str, str] = {}  # modules that killed the process that imported them
        self._wanted: float | None = None  # when the change to be reloaded was written
        self._not_before = 0.0
        self._kills = 0  # templates that died in a row through no fault of a module
        self._unsteady = 0  # templates in a row under which the code changed
        self._whole = False  # the next template imports everything, not only what has changed
        self._asks = settings.preview == "ask"
        self._accepted_version = ""  # a version that goes live though its pages fail

    @property
    def state(self) -> CodeState:
        return self.reports.state

    @property
    def accepted(self) -> CodeLoaded | None:
        """The last accepted code, even after its template has died."""
        return self.reports.loaded

    @property
    def given_up(self) -> bool:
        """Whether this master was to replace another, and its code was refused."""
        return self.strict and self.state.state == "refused"

    @property
    def ahead(self) -> Template | None:
        """A preloaded template whose version will be accepted unless the code still changes."""
        trial = self._trial
        if trial is None or not trial.ahead or trial.loaded is None:
            return None
        loaded = trial.loaded
        before = self.accepted.checks if self.accepted is not None else {}
        checked = loaded.checks.items() - before.items()
        tried = loaded.tried != []
        doubtful = loaded.unfit or checked or tried or not loaded.broken.keys() <= self._known
        return None if doubtful or self._is_accepted(loaded) else trial

    @property
    def _cold(self) -> bool:
        """Whether there is no version to fall back on."""
        return self.accepted is None and not self.strict

    # -- from the supervisor ----------------------------------------------------------------------

    def preload(self, changed_at: float) -> None:
        """The code on disk is changing (time.monotonic()). The present state is preloaded; it is
        judged only if the code is still the same once it is quiet. Modules that killed a process
        are tried again by a reload, not here."""
        idle = self._trial is None and self._wanted is None
        if idle and self.live is not None and not self._deadly:
            self._begin(changed_at, ahead=True)

    def drop_preload(self) -> None:
        """Ends a preload that is not needed."""
        if self._trial is not None and self._trial.ahead:
            self._trial.end()
            self._trial = None

    def reload(self, change: Reload) -> None:
        """The code on disk changed. One trial at a time: changes during a trial lead to another."""
        self._deadly.clear()
        trial = self._trial
        if trial is not None and self._check.holds(trial):
            self._check.end()
            trial.end()
            self._trial = trial = None
        if trial is None or not trial.ahead:
            self._wanted = change.changed_at
            return
        trial.ahead, trial.changed_at = False, change.changed_at
        trial.expected = (change.digest, change.revision)
        self.reports.update(state="checking", candidate=trial.version)
        if trial.loaded is not None:
            self._judge(trial, trial.loaded)

    def follow(self, initial: InitialState) -> None:
        """Continues from the state of the master that this one replaces, if there is one."""
        self.strict = initial.broken is not None
        self._known = frozenset(initial.broken or ())
        self._wanted = initial.changed_at
        self.reports.follow(initial)

    def look(self, decision_on: Callable[[str], Decision | None], now: float) -> None:
        """Takes the refused version if an operator has accepted it, and asks no more if one has
        refused it."""
        state = self.state
        if state.state != "refused" or not (state.asks or state.refused_by):
            return
        decision = decision_on(state.candidate)
        if decision is None:
            return
        if decision.accepted:
            self._accepted_version, self._wanted = state.candidate, now
        elif state.asks:
            self.reports.update(asks=False, refused_by=decision.by)

    # -- trials -----------------------------------------------------------------------------------

    def tick(self, workers: int, now: float) -> None:
        """Starts a trial if there is a reason. ``workers``: the number of workers now."""
        self._check.tick(now)
        trial = self._trial
        if trial is not None:
            if self._check.holds(trial):
                self.reports.send_progress(now)
            elif now - trial.child.last_beat > self._silence and trial.child.staying:
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
                self.reports.loaded = None  # better a part of the code on disk than none
            self._begin(now)

    def _begin(self, changed_at: float, *, ahead: bool = False) -> Template:
        self._wanted = None
        whole, self._whole = self._whole, False
        renewed = None
        if self.live is not None and self.live.loaded and self.live.loaded.renewable and not whole:
            renewed = self._pool.renew_template(self.live)
        trial = self._trial = renewed or self._pool.start_template(
            self._deadly, cold=self._cold, tolerant=self._cold and self._unsteady >= MAX_CHANGES
        )
        trial.changed_at, trial.ahead = changed_at, ahead
        if not ahead:
            self.reports.update(state="checking" if self.accepted else "loading", candidate="")
        return trial

    # -- from templates ---------------------------------------------------------------------------

    def on_message(self, child: Child, message: FromTemplate | FromChecker, now: float) -> None:
        self.reports.send_progress(now)
        if isinstance(message, FromChecker):
            if self._check.is_of(child):
                self._check.on_message(message)
            return
        trial = self._trial
        if trial is None or trial.child is not child:
            return
        match message:
            case GitBusy():
                pass
            case LoadingVersion(version):
                trial.version = version
                if not trial.ahead:
                    self.reports.update(candidate=version)
            case ImportingModule(module):
                trial.loading = module
            case Unsteady(problem):
                if trial.ahead:
                    self.drop_preload()
                else:
                    self._on_unsteady(trial, problem, now)
            case LoadAll(reason):
                log.info("all modules are imported again: %s", reason)
                trial.orders.close()
                trial.child.retiring_since = now  # it ends by itself
                self._whole = True
                self._begin(trial.changed_at, ahead=trial.ahead).expected = trial.expected
            case CodeLoaded():
                trial.loaded, trial.version = message, message.version
                if message.unfit and self._cold:
                    self._wait_until_fit(trial, message.unfit, now)
                elif not trial.ahead:
                    self._judge(trial, message)

    def _on_unsteady(self, trial: Template, problem: str, now: float) -> None:
        self._unsteady += 1
        if self._cold and self._unsteady > MAX_CHANGES:
            log.warning("%s; it is accepted as it is", problem)
            return  # the template continues
        trial.orders.close()
        trial.child.retiring_since = now  # it ends by itself
        if self._cold or self._unsteady < MAX_CHANGES:
            log.info("%s; trying again", problem)
            self._again(trial, now)
            return
        self._unsteady = 0
        self._trial = None
        self.refuse(trial.version, f"{problem}, {MAX_CHANGES} times in a row")

    def _judge(self, trial: Template, loaded: CodeLoaded) -> None:
        self._trial = None
        if trial.expected not in (None, (loaded.digest, loaded.revision)):
            trial.end()  # it was preloaded, and the code has changed since
            self._begin(trial.changed_at)
            return
        self._kills = self._unsteady = 0
        broken = loaded.broken.items()
        worse = {module: text for module, text in broken if module not in self._known}
        if loaded.unfit:
            trial.end()
            self.refuse(trial.version, loaded.unfit)
        elif worse and (self.accepted or self.strict):
            self._refuse(trial, worse)
        elif self.accepted and self._is_accepted(loaded):
            trial.loaded = self.accepted  # so its workers count as workers of the previous template
            if self.live is None:
                self.live = trial
            else:
                trial.end()
            log.info("version %s is already live", loaded.version)
            self.reports.accept_again(loaded, _join_texts(loaded.broken))
        else:
            self._check_or_accept(trial, loaded)

    def _is_accepted(self, loaded: CodeLoaded) -> bool:
        """Whether this is the accepted code, loaded once more."""
        return msgspec.structs.replace(loaded, tried=[]) == self.accepted

    def _check_or_accept(self, trial: Template, loaded: CodeLoaded) -> None:
        before, cold = self.accepted, self._cold
        waits = not cold and loaded.version != self._accepted_version
        if waits and self._check.begin(trial, before, waits=True, beside=self.live):
            self._trial = trial
            return
        self._accept(trial, loaded)
        if cold:
            self._check.begin(trial, None, waits=False)

    def _on_checked(self, trial: Template | None, problems: dict[str, str]) -> None:
        """``trial`` is None for the live version."""
        if trial is None or trial.loaded is None:
            if problems:
                self.reports.update(problem=_join_texts({"": self.state.problem} | problems))
            return
        self._trial = None
        if problems:
            self._refuse(trial, problems, asks=self._asks)
        else:
            self._accept(trial, trial.loaded)

    def _wait_until_fit(self, trial: Template, problem: str, now: float) -> None:
        """There is no other version, so the node waits for this one to be corrected."""
        trial.end()
        self._trial = None
        self._not_before = now + UNFIT_PAUSE
        if problem != self.state.problem:
            log.error("no worker can run, so nothing is fetched: %s", problem)
        self.reports.update(state="refused", candidate=trial.version, problem=problem[:MAX_PROBLEM])

    def _accept(self, trial: Template, loaded: CodeLoaded) -> None:
        faults.at("reload.ready")
        for module, text in loaded.broken.items():
            log.error("spider module %s is not loaded: %s", module, text)
        if self.live is not None:
            self.live.end()
        if loaded.item_classes:
            item_adapter()  # for the templates that are forked later
        if loaded.tried != []:  # they were tried
            loaded = trial.loaded = msgspec.structs.replace(loaded, tried=[])
        self.live, self.strict = trial, False
        self._known = frozenset(loaded.broken)
        self.reports.accept(loaded, _join_texts(loaded.broken))

    def worker_ready(self, child: Child, now: float) -> None:
        """Completes the reload when the first worker of a version is ready."""
        live = self.live
        of_live = live is not None and child.origin is live.loaded
        self.reports.worker_ready(live.changed_at if live and of_live else None, now)

    def _refuse(self, trial: Template, broken: dict[str, str], *, asks: bool = False) -> None:
        trial.end()
        self.refuse(trial.version, _join_texts(broken), asks=asks)

    def refuse(self, version: str, problem: str, *, asks: bool = False) -> None:
        """Records that a version does not go live, and why. ``asks``: an operator may decide."""
        log.error("version %s is refused, %s stays live: %s", version, self.state.version, problem)
        self.reports.update(
            state="refused",
            candidate=version,
            problem=problem[:MAX_PROBLEM],
            asks=asks,
            refused_by="",
        )

    # -- deaths -----------------------------------------------------------------------------------

    def on_exit(self, child: Child, code: int | None, now: float) -> None:
        """Handles the end of a template or checker."""
        if self._check.is_of(child):
            self._check.on_exit(child, code)
        elif self.live is not None and self.live.child is child:
            log.warning("the template of version %s died; it is loaded again", self.live.version)
            self.live = None
            self._not_before = now + RETRY_PAUSE
        elif self._trial is not None and self._trial.child is child:
            self._on_trial_exit(self._trial, code, now)

    def _on_trial_exit(self, trial: Template, code: int | None, now: float) -> None:
        how = "ended" if code is None else f"died ({describe_exit(code)})"
        if not trial.child.staying:
            how = f"was silent for {self._silence:g} s and was killed"
        trial.orders.close()
        if self._check.holds(trial):
            self._check.end()
        if trial.ahead:
            self._trial = None
            self._whole = trial.renewed
            return
        if trial.renewed:  # maybe because of what is there from before
            self._again(trial, now)
            return
        killed = code == -signal.SIGKILL and trial.child.staying
        self._kills += 1
        if self._kills <= KILLS and (killed or not trial.loading):
            self._again(trial, now)  # a person, or lack of memory: maybe not the code's fault
            return
        if trial.loading:
            text = f"{trial.loading}: the process that imports it {how}"
        else:
            text = f"the process that loads the spiders {how}; see the log"
            if self.accepted is None and not self.strict:
                self._again(trial, now)  # no other way, with pauses
                return
        if trial.loading in self._known or not (self.accepted or self.strict):
            log.error("spider module %s", text)
            self._deadly[trial.loading] = text
            self._again(trial, now)
        else:
            self._trial = None
            self._kills = 0
            self.refuse(trial.version, text)

    def _again(self, trial: Template, now: float) -> None:
        self._trial = None
        self._whole = True
        self._wanted = trial.changed_at if self._wanted is None else self._wanted
        self._not_before = now + RETRY_PAUSE

    def end(self) -> None:
        """Ends all templates; no more trials are started."""
        self._check.end()
        for template in (self.live, self._trial):
            if template is not None:
                template.end()
        self.live = self._trial = None


def _join_texts(broken: Mapping[str, str]) -> str:
    return "\n\n".join(filter(None, broken.values()))[:MAX_PROBLEM]
