#!/usr/bin/env python3
"""gradwire bench: the front door's way to a benchmark. `lib` is what they share; no benchmark imports another."""
import signal
import sys

import compression
import cut_stalls
import frameworks
import hot_key
import instructions
import load
import predict
import roofline
import stages
import stream
import table_sizes
import update_modes
from lib.programs import EXIT_INTERRUPTED

PROGRAMS = {"update-modes": update_modes, "compression": compression, "frameworks": frameworks,
            "instructions": instructions, "roofline": roofline, "cut-stalls": cut_stalls,
            "hot-key": hot_key, "load": load, "table-sizes": table_sizes, "predict": predict, "stream": stream}


def main(arguments):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes are ended, namespaces removed
    if arguments and arguments[0] in PROGRAMS:
        return PROGRAMS[arguments[0]].main(arguments[1:])
    return stages.main(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("gradwire bench: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
