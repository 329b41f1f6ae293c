"""Wording: cases in sentences, in the language of the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from crawlservice.models import Case
from crawlservice.monitoring.owners import owners

MAX_NAMED = 3  # spiders, and fields, that a sentence names
Cause = Case.Cause


def facts_of(case: Case) -> dict[str, Any]:
    """The facts of its sentence."""
    spiders = [one.spider for one in case.spiders.all()]
    proof = {name: case.proof[name] for name in ("asks", "target", "places") if name in case.proof}
    return {
        "cause": case.cause,
        "host": case.host,
        "version": case.version,
        "fields": case.fields,
        "spiders": spiders,
        "proof": {**proof, "places": proof.get("places", [])[:1]},
    }


def sentence(facts: Mapping[str, Any]) -> str:
    """The cause, and whom it concerns. Raises KeyError for facts of another release."""
    what = _cause(facts["cause"], facts, facts["proof"])
    return _("{spiders}: {what}").format(spiders=_named(facts["spiders"]), what=what)


def _cause(cause: str, facts: Mapping[str, Any], proof: Mapping[str, Any]) -> str:
    host, fields = facts["host"] or _("many hosts"), _named(facts["fields"])
    places = proof["places"][0] if proof.get("places") else {}
    texts: dict[str, str] = {
        Cause.COMMIT: _("the commit {version} loses values that the version before finds"),
        Cause.REDESIGN: _("{host} was redesigned"),
        Cause.RENAMED: _("{host} has renamed the elements of {fields}"),
        Cause.MOVED: _("{host} has {fields} only in JSON now"),
        Cause.CHALLENGE: _("{host} shows a challenge in place of its pages"),
        Cause.HOST_DEAD: _("{host} does not answer"),
        Cause.REDIRECTED: _("{host} redirects to {target}"),
        Cause.LOCALE: _("{host} has another language, currency or form of numbers"),
        Cause.EMPTY: _("the lists of {host} are empty"),
        Cause.BLOCKED: _("{host} refuse our requests") if not facts["host"]
        else _("{host} refuses our requests"),
        Cause.UNKNOWN: _("its runs are bad, and the cause is not known"),
    }  # fmt: skip
    text = texts.get(cause, cause)
    if cause == Cause.CHALLENGE and proof.get("asks") == "login":
        text = _("{host} shows a login in place of its pages")
    words = text.format(
        host=host, fields=fields, version=facts["version"], target=proof.get("target", "?")
    )
    if cause == Cause.RENAMED and places.get("now"):
        told = {"what": words, "was": places["was"], "now": places["now"]}
        words = _("{what} ({was} is {now} now)").format(**told)
    if cause in (Cause.REDESIGN, Cause.LOCALE, Cause.UNKNOWN, Cause.COMMIT) and facts["fields"]:
        words += f": {fields}"
    return words


def _named(names: list[str]) -> str:
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    n = len(names) - MAX_NAMED
    more = ngettext("and {n} more", "and {n} more", n).format(n=n)
    return f"{', '.join(names[:MAX_NAMED])} {more}"


def sentence_of(case: Case) -> str:
    return sentence(facts_of(case))


def owners_of(case: Case) -> list[str]:
    """The owners of its spiders."""
    known = owners()
    some = [known.get(one.spider, ()) for one in case.spiders.all()]
    return [*dict.fromkeys(name for names in some for name in names)]


def described(case: Case) -> dict[str, Any]:
    """A case, for the API."""
    names = (
        "cause", "state", "blame", "host", "fields", "version", "since", "first_task", "first_url",
        "examples", "earlier", "opened_at", "seen_at", "ended_at", "acknowledged_at",
    )  # fmt: skip
    columns = (
        *("spider", "fields", "first_task", "last_task", "last_good", "good_version"),
        *("version", "is_good"),
    )
    return {
        "id": case.pk,
        "text": sentence_of(case),
        "proof": proof_of(case),
        **{name: getattr(case, name) for name in names},
        "acknowledged_by": case.acknowledged_by and case.acknowledged_by.get_username(),
        "owners": owners_of(case),
        "spiders": [{name: getattr(one, name) for name in columns} for one in case.spiders.all()],
        "proposals": proposals_of(case),
        "link": f"/admin/crawlservice/case/{case.pk}/change/",
    }


def proposals_of(case: Case) -> list[dict[str, Any]]:
    """Of each spider and field the best first."""
    return [
        {"spider": row.spider, "field": name, **one}
        for row in case.spiders.all()
        for name, some in (row.proposals or {}).items()
        for one in some
    ]


def proof_of(case: Case) -> list[str]:
    """The proof of cause and blame, in sentences."""
    return [*_seen(case.proof), *_blamed(case)]


def _seen(proof: Mapping[str, Any]) -> Iterator[str]:
    if reasons := proof.get("reasons"):
        named = ", ".join(f"{reason} {number}" for reason, number in reasons.items())
        yield _("Requests ended in error: {reasons}.").format(reasons=named)
    if hosts := proof.get("hosts"):
        yield _("Hosts that refuse us at the same time: {hosts}.").format(hosts=", ".join(hosts))
    if proof.get("bad"):
        yield _("{bad} of {of} kept pages of the bad run show it.").format(
            bad=proof["bad"], of=proof["of"]
        )
    if language := proof.get("language"):
        yield _("The pages declare the language {new}; it was {old}.").format(
            old=language[0], new=language[1]
        )
    if "alike" in proof:
        # xgettext:no-python-format
        alike = _("{percent} % of the names of elements are the same as before.")
        yield alike.format(percent=round(100 * proof["alike"]))
    places = {
        "fresh": _("{field} stood in {was} and stands in {now} now: on {found} of {of} pages."),
        "inline": _("{field} stood in {was} and is only in the JSON at {now}: on {found} of {of}."),
        "form": _("{field} stands in {was} as before, in another form."),
        "gone": _("{field} stood in {was}, which is on {found} of {of} pages now."),
    }
    for place in proof.get("places", ()):
        if text := places.get(place["kind"]):
            yield text.format(**place)
    lacks = {
        "bad": _("No page of the bad run that shows it is kept, so the cause is not known."),
        "old": _("No page of a good run is kept, so nothing can be compared."),
    }
    if text := lacks.get(proof.get("lacks", "")):
        yield text


def _blamed(case: Case) -> Iterator[str]:
    proof = case.proof
    values = {"good": proof.get("good_version") or "?", "bad": case.version or "?"}
    values |= {"tried": proof.get("tried", 0), "problem": proof.get("problem") or ""}
    text = {
        "same_version": _("The last good run had the same code version {bad}."),
        "same_code": _("The version changed from {good} to {bad}, but not the code of the spider."),
        "fails_on_old": _(
            "On {tried} pages of the last good run, {good} finds values that {bad} does not."
        ),
        "well_on_old": _("On {tried} pages of the last good run, {bad} finds all that {good} did."),
        "not_tried": _(
            "The version changed from {good} to {bad}; whether that matters could not be tried."
        ),
        "no_version": _("The code version of one of the runs is not known."),
    }.get(proof.get("blame", ""))
    if text:
        yield " ".join(filter(None, (text.format(**values), values["problem"])))
