"""`python -m alerts`: write the rules from a file of values.

Exit codes: 0 done, 2 unusable values or arguments.
"""

import argparse
import sys
from pathlib import Path

try:
    from alerts import render
    from alerts.values import FILE, Values, ValuesError, load
except ModuleNotFoundError as error:
    if error.name != "promql_parser":
        raise
    sys.stderr.write(f"alerts: {error.name} is missing: run pip install 'shadow-pleg[alerts]'\n")
    sys.exit(2)


def made(values: Values, folder: Path) -> dict[Path, str]:
    """Each file in `folder` and its text."""
    if not folder.is_dir():
        raise ValuesError(f"--output: {folder} is not a folder: create it first")
    return {
        folder / "rules.yaml": render.dump({"groups": render.groups(values)}),
        folder / "prometheusrule.yaml": render.prometheus_rule(values),
        folder / "alertmanager.yml": render.alertmanager(values),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m alerts", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--values", type=Path, default=FILE, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=".", help="folder; default: this one")
    given = parser.parse_args(arguments)
    try:
        files = made(load(given.values), given.output)
    except ValuesError as error:
        sys.stderr.write(f"alerts: {error}\n")
        return 2
    try:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path}\n")
    except OSError as error:
        said = f"{error.filename}: {error.strerror}: name a folder that can be written"
        sys.stderr.write(f"alerts: --output: {said}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
