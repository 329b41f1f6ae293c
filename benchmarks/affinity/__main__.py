"""``python -m benchmarks.affinity [--quick] [--nodes N,…]``"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from redis import RedisError

from benchmarks.affinity.simulation import Crawl, Result, Simulation, claim_cost, settable_clock
from benchmarks.lab import results
from benchmarks.lab.redis import RedisServer
from crawlframe.errors import CrawlframeError

GOAL = 0.10  # part of the mean by which the load of a node may differ
MODES = ("off", "host", "domain")
SLOTS = 64


def main() -> int:
    options = parsed()
    hosts, requests = (1_000, 5_000) if options.quick else (options.hosts, options.requests)
    kinds = {"delay 1 s": (1.0, 1), "no delay, 2 at a time": (0.0, 2)}
    failed = False
    figures: dict[str, object] = {}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as place,
            RedisServer(Path(place), "--appendonly", "no") as server,
        ):
            print(f"{hosts} hosts of Zipf sizes, {requests} requests, {SLOTS} slots per node")
            with settable_clock():
                for name, (delay, concurrency) in kinds.items():
                    for nodes in options.nodes:
                        crawl = Crawl(hosts, requests, delay, concurrency, nodes, SLOTS)
                        for mode in MODES[:2]:
                            server.client.flushall()
                            result = Simulation(server.client, crawl, mode, options.seed).run()
                            print(f"{name}, {nodes} nodes, {mode:6}: {line(result)}", flush=True)
                            figures[f"{name}, {nodes}, {mode}"] = {
                                **result._asdict(), "deviation": result.deviation,
                            }  # fmt: skip
                            failed |= result.close > 0 and delay > 0
                            failed |= mode != "off" and result.deviation > GOAL
            names = [f"www.site{n}.co.uk" for n in range(10_000)]
            for n in (4, 64):
                costs = [claim_cost(server.client, mode, names, n, 200) for mode in MODES]
                ratios = [f"{mode} {cost:.3f} ms ({cost / costs[0]:.2f})"
                          for mode, cost in zip(MODES, costs, strict=True)]  # fmt: skip
                print(f"a claim of {n} of 10,000 hosts: {', '.join(ratios)}", flush=True)
                figures[f"claim of {n}"] = dict(zip(MODES, costs, strict=True))
    except (OSError, RuntimeError, CrawlframeError, RedisError) as error:
        print(f"affinity: {error}", file=sys.stderr)
        return 2
    print(f"figures: {results.write('affinity', figures, options.output)}")
    return 1 if failed else 0


def line(result: Result) -> str:
    """One run."""
    return (
        f"load per node within {100 * result.deviation:.1f} %, "
        f"{100 * result.preferred:.1f} % by the preferred node, "
        f"{result.connections} connections, {result.touched} hosts looked up, "
        f"{result.moved} slots moved, 90 % after {result.most:.0f} s, all after "
        f"{result.seconds:.0f} s, claim {result.claim_ms:.2f} ms ({result.claims}), "
        f"{result.close} too close"
    )


def parsed() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.affinity",
        description="Simulated nodes claim from a real Redis at a clock that is set. Exit code 1 "
        "when the load of a node differs from the mean by more than 10 %, or when two requests of "
        "a host were closer than its delay.",
    )
    parser.add_argument("--quick", action="store_true", help="1,000 hosts, 5,000 requests")
    parser.add_argument("--hosts", type=int, default=10_000, help="(10,000)")
    parser.add_argument("--requests", type=int, default=50_000, help="(50,000)")
    parser.add_argument("--nodes", type=lambda text: [*map(int, text.split(","))],
                        default=[2, 4, 8], metavar="N,…", help="(2,4,8)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=19, help="of sizes and latencies (19)")
    parser.add_argument("--output", type=Path, default=results.PLACE / "affinity.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
