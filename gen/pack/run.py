"""`python run.py` of a pack: every case of every spec that the card can run, and a table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gen.check.case import MEANINGFUL_VALUES, Case
from gen.pack.worker import Worker
from gen.run import RunError


def main(folder: Path) -> int:
    """Check the pack's cases on a card; 1 where one failed."""
    parser = argparse.ArgumentParser(description="Check the packed kernels on a CUDA card.")
    parser.add_argument("--spec", action="append", help="only this spec (may be repeated)")
    parser.add_argument("--card", type=int, default=0, help="index of the CUDA card")
    parser.add_argument("--json", type=Path, help="also write every result to this file")
    parser.add_argument("--bench", action="store_true", help="measure the kernels instead")
    options = parser.parse_args()
    entries = json.loads((folder / "pack.json").read_text())["specs"]
    chosen = [entry for entry in entries if not options.spec or entry["spec"]["name"] in options.spec]
    if options.bench:
        return bench_entries(folder, chosen, options.card, options.json)
    worker = Worker(folder, options.card)
    try:
        results = [check_entry(worker, entry) for entry in chosen]
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        worker.stop()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    failed = sum(len(result["failures"]) for result in results)
    print(f"{sum(r['passed'] for r in results)} passed, {failed} failed")
    return int(failed > 0 or not results)


def check_entry(worker: Worker, entry: dict[str, Any]) -> dict[str, Any]:
    """Run the cases of one spec and print a line about it, and a paragraph a failure."""
    name, arch = entry["spec"]["name"], entry["kernels"][0]["arch"]
    result: dict[str, Any] = {"name": name, "arch": arch, "passed": 0, "failures": [], "worst_rms": {}}
    begin = time.perf_counter()
    for data in entry["cases"]:
        case = Case(data["sizes"], data["knobs"])
        answer = worker.check(name, case)
        if answer["failure"]:
            result["failures"].append(answer["failure"])
            print(f"error: {answer['failure']}", file=sys.stderr, flush=True)
            continue
        result["passed"] += 1
        if case.knobs.get("values", MEANINGFUL_VALUES) == MEANINGFUL_VALUES:
            for output, measured in answer["distances"].items():
                result["worst_rms"][output] = max(result["worst_rms"].get(output, 0.0), measured["rms"])
    result["seconds"] = round(time.perf_counter() - begin, 1)
    worst = " ".join(f"{output} {rms:.1e}" for output, rms in result["worst_rms"].items())
    print(
        f"{name:30s} {arch:8s} {result['passed']:4d} passed {len(result['failures']):3d} failed "
        f"{result['seconds']:6.1f} s  rms {worst}",
        flush=True,
    )
    return result


def bench_entries(folder: Path, entries: list[dict[str, Any]], card: int, output: Path | None) -> int:
    """Measure the specs that have a bench and print their rows."""
    from gen.bench.session import Session
    from gen.pack.tree import decode_compiled, decode_spec

    session = Session(card)
    print(session.headline())
    specs = ((decode_spec(e["spec"]), decode_compiled(e["kernels"], folder)) for e in entries)
    rows = []
    for row in session.rows(specs):
        rows.append(asdict(row))
        print(
            f"{row.name:28s} {row.sizes:24s} {row.us:8.2f} us, floor {row.floor_us:8.2f}, "
            f"{row.share_of_copy:4.0%} of copy, baseline {row.baseline_us:8.2f} us, {row.ratio:5.2f}x, "
            f"error {row.error:.1e} against {row.baseline_error:.1e}",
            flush=True,
        )
    if output:
        output.write_text(json.dumps({"card": session.headline(), "rows": rows}, indent=1) + "\n")
    return 0
