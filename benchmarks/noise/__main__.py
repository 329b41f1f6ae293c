"""``python -m benchmarks.noise articles DATA | crawl [FOLDER ...] | families [FOLDER ...] |
tune DATA``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.lab.job import run, say, show
from benchmarks.lab.results import write
from benchmarks.noise import articles, families, sites, tune, urls
from crawlframe.noise import Density, LinkFilter, QuarterRule, TemplateLinks, judge
from crawlframe.noise.density import FEATURES
from crawlframe.response import Response

F1, KEPT, MILLISECONDS = 0.86, 0.90, 3.0
REACHED = 0.99
RAND, RATE, PRECISION, RECALL = 0.9, 20_000, 0.95, 0.90
PAGES = 1_500  # of the generated site
URLS = 20_000  # of each generated site
SEED = 2  # the rules were chosen with 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.noise",
        description="Noise links. articles: links of annotated articles (DATA is a checkout of "
        "scrapinghub/article-extraction-benchmark), half of the pages to tune on and half to judge "
        "by. crawl: pages of documentation sites that are reached with each filter, of a generated "
        "one and of folders of HTML. families: clusters of URLs against known templates, and noise "
        "that is found from samples. tune: prints weights for Density. Exit code 1 if a goal is "
        "missed.",
    )
    parser.add_argument("part", choices=["articles", "crawl", "families", "tune"])
    parser.add_argument("data", nargs="*", type=Path, help="a checkout, or folders of HTML")
    parser.add_argument("--quick", action="store_true", help="a tenth of what is generated")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if options.part in ("articles", "tune") and len(options.data) != 1:
        parser.error(f"{options.part} needs one folder: a checkout of the annotated articles")
    part: Callable[..., tuple[dict[str, Any], bool]] = PARTS[options.part]
    return run("noise", partial(_measure, options, part))


def _measure(
    options: argparse.Namespace, part: Callable[..., tuple[dict[str, Any], bool]], work: Path
) -> int:
    figures, good = part(options.data, options.quick)
    say("noise", f"figures: {write(f'noise_{options.part}', figures, options.output)}")
    return 0 if good else 1


def _articles(data: Sequence[Path], quick: bool) -> tuple[dict[str, Any], bool]:
    tuned, judged = articles.halves(data[0])
    rows, figures = [], {}
    for name, make in articles.FILTERS.items():
        scores = {"tuned": articles.score(make(), tuned), "judged": articles.score(make(), judged)}
        mean, parsing = articles.milliseconds(make, judged)
        median, most = articles.spread(make, judged)
        for part, one in scores.items():
            rows.append(
                [f"{name}, {part}", *_scored(one),
                 f"{mean:.2f}", f"{median:.2f}", f"{most:.1f}", f"{parsing:.2f}"]
            )  # fmt: skip
        figures[name] = {
            **{part: one._asdict() for part, one in scores.items()},
            "milliseconds": {"mean": mean, "median": median, "most": most, "parsing": parsing},
        }
    others = {
        "trafilatura's main text, tuned": articles.main_text_score(tuned),
        "trafilatura's main text, judged": articles.main_text_score(judged),
        "Density, each half by weights of the other": tune.crossed(data[0]),
    }
    for name, one in others.items():
        rows.append([name, *_scored(one)])
        figures[name] = one._asdict()
    columns = ("content kept", "precision", "F1", "content", "noise", "ms", "median", "most",
               "with parsing")  # fmt: skip
    caption = "F1 of the links that are kept; CPU ms a page, after it was parsed, and with parsing."
    show("Links of articles", columns, rows, caption)
    last = figures["Density"]
    score = articles.Score(**last["judged"])
    good = score.f1 >= F1 and score.recall >= KEPT and last["milliseconds"]["mean"] <= MILLISECONDS
    return figures, good


def _scored(one: articles.Score) -> list[str]:
    return [f"{one.recall:.3f}", f"{one.precision:.3f}", f"{one.f1:.3f}",
            f"{one.kept + one.lost:,}", f"{one.noise + one.kept_noise:,}"]  # fmt: skip


def _crawl(data: Sequence[Path], quick: bool) -> tuple[dict[str, Any], bool]:
    some = [sites.generated(PAGES // 10 if quick else PAGES), *map(sites.folder, data)]
    makes: dict[str, Callable[[], LinkFilter]] = {
        "the rule as written": QuarterRule,
        "Density": Density,
        "TemplateLinks": TemplateLinks,
    }
    rows, figures, good = [], {}, True
    for site in some:
        everything, followed = sites.crawl(site, Response.links)
        rows.append([f"{site.name}, all links", f"{len(everything):,}", "1.0000", f"{followed:,}"])
        for name, make in makes.items():
            reached, returned = sites.crawl(site, partial(_kept, make()))
            share = len(reached & everything) / len(everything)
            rows.append(
                [f"{site.name}, {name}", f"{len(reached):,}", f"{share:.4f}", f"{returned:,}"]
            )
            figures[f"{site.name}, {name}"] = {"reached": share, "links": returned / followed}
            good = good and (name != "TemplateLinks" or share >= REACHED)
    show("Documentation sites, breadth first", ("pages", "reached", "links returned"), rows)
    return figures, good


def _kept(one: LinkFilter, page: Response) -> list[str]:
    return judge(page, one).kept


def _families(data: Sequence[Path], quick: bool) -> tuple[dict[str, Any], bool]:
    count = URLS // 10 if quick else URLS
    rows, figures, good = [], {}, True
    for site in urls.TEMPLATES:
        one = families.cluster(urls.generated(site, count, SEED, noise=False))
        noise = families.spread(urls.generated(site, count, SEED, noise=True))
        rows.append(
            [site, f"{count:,}", f"{one.rand:.3f}", f"{one.families}", f"{one.templates}",
             f"{one.rate:,.0f}", f"{noise.precision:.3f}", f"{noise.recall:.3f}",
             f"{noise.rate:,.0f}"]
        )  # fmt: skip
        figures[site] = {"clustering": one._asdict(), "noise": noise._asdict()}
        good = good and one.rand >= RAND and one.rate >= RATE
        good = good and noise.precision >= PRECISION and noise.recall >= RECALL
    for folder in data:
        some, name = [*urls.of_folder(folder.resolve())], f"{folder.parent.name}/{folder.name}"
        if not some:
            raise RuntimeError(f"{folder} has no *.html")
        one = families.cluster(some)
        rows.append(
            [name, f"{len(some):,}", f"{one.rand:.3f}", f"{one.families}",
             f"{one.templates}", f"{one.rate:,.0f}", "", "", ""]
        )  # fmt: skip
        figures[name] = {"clustering": one._asdict()}
        good = good and one.rand >= RAND and one.rate >= RATE
    columns = ("URLs", "adjusted Rand", "families", "templates", "URLs/s", "noise precision",
               "recall", "URLs/s")  # fmt: skip
    caption = "Noise: from 2 % of the URLs as samples, 5 % of them with the wrong label."
    show("Families of URLs", columns, rows, caption)
    return figures, good


def _tune(data: Sequence[Path], quick: bool) -> tuple[dict[str, Any], bool]:
    pages = tune.rows(articles.halves(data[0])[0])
    odds = tune.folds(pages)
    content = sum(label for _, label in odds)
    rows = []
    for least in (-1.5, -1.0, -0.5, 0.0):
        kept = [label for one, label in odds if one >= least]
        precision, recall = sum(kept) / max(1, len(kept)), sum(kept) / content
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        rows.append([f"{least:.1f}", f"{recall:.3f}", f"{precision:.3f}", f"{f1:.3f}"])
    show("Odds from which on a link is kept", ("content kept", "precision", "F1"), rows,
         "Each fifth of the pages by the weights of the others.")  # fmt: skip
    weights = tune.fit(pages)
    show("Weights", ("weight",), [[n, f"{w:.2f}"] for n, w in zip(FEATURES, weights, strict=True)])
    return {"weights": weights}, True


PARTS = {"articles": _articles, "crawl": _crawl, "families": _families, "tune": _tune}

if __name__ == "__main__":
    sys.exit(main())
