"""`python -m autograder.copycost --record FILE`: measure this machine and write the record, without a notebook."""

import argparse
import sys
from pathlib import Path

from autograder.copycost import exact, measure, records
from autograder.needs import Missing


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder.copycost", description="Measure what copying KV blocks costs on this machine.")
    parser.add_argument("--record", metavar="FILE", type=Path, required=True, help="where to write the record (JSON); for the book: book/_data/copycost-NAME.json")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where torch sees one, else cpu")
    options = parser.parse_args(argv)
    try:
        if options.device == "cuda" and measure.device_here() != "cuda":
            print("torch sees no CUDA device here: leave out --device, or run it where there is one.", file=sys.stderr)
            return 2
        if not options.record.resolve().parent.is_dir():
            print(f"There is no folder {options.record.parent}: make it first, or name another file.", file=sys.stderr)
            return 2
        record = measure.take(options.device, say=lambda line: print(line, flush=True))
        records.save(record, options.record)
    except (Missing, exact.CopiesWrong, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; no record was written.", file=sys.stderr)
        return 130
    print(f"{options.record}: {records.device_words(record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
