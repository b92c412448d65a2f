"""What the package's metadata takes from exporter/__init__.py: links, also those of the README.

And the commit for `shadow-pleg --version`: exporter/commit.txt is written from git, unless the
sources bring it along because git is not there.
"""

import re
import runpy
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
OURS = runpy.run_path(str(HERE / "exporter/__init__.py"))
HOME, VERSION = OURS["HOME"], OURS["__version__"]
# To a file of the checkout: in Markdown, or in HTML.
LINK = re.compile(r'(!?)(\[[^\]]*\]\(|src(?:set)?=")(?![a-z]+:|#)')


def published(page: str) -> str:
    """A page of the checkout, for who has only that page: its links lead to this version."""

    def absolute(found: re.Match[str]) -> str:
        page = found[2].startswith("[") and not found[1]
        return f"{found[0]}{HOME}/{'blob' if page else 'raw'}/v{VERSION}/"

    return LINK.sub(absolute, page)


def commit() -> str:
    """Of this checkout; empty if it is none."""
    if not (HERE / ".git").exists():
        return ""
    asked = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.command.build_py import build_py

    class BuildPy(build_py):  # type: ignore[misc] # without types
        """Beside the package, its commit; not in a checkout, which goes on."""

        def run(self) -> None:
            """Build."""
            super().run()
            if not self.editable_mode and (known := commit()):
                Path(self.build_lib, "exporter/commit.txt").write_text(known, encoding="ascii")

    setup(
        cmdclass={"build_py": BuildPy},
        long_description=published((HERE / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        project_urls={
            "Homepage": HOME,
            "Documentation": f"{HOME}/tree/v{VERSION}/docs",
            "Changelog": f"{HOME}/blob/v{VERSION}/CHANGELOG.md",
            "Issues": f"{HOME}/issues",
        },
    )
