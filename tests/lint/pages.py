#!/usr/bin/env python3
"""Check the form of the user's pages, and the tables of commands that are not run; one step of ./gradwire lint. tests/lib/pages.py
says which form that is."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import pages  # noqa: E402

if __name__ == "__main__":
    errors = pages.check()
    print("\n".join(errors) or "pages ok", file=sys.stderr if errors else sys.stdout)
    sys.exit(1 if errors else 0)
