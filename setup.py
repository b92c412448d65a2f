"""What the package's metadata takes from exporter/__init__.py: links, also those of the README."""

import re
import runpy
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


if __name__ == "__main__":
    from setuptools import setup

    setup(
        long_description=published((HERE / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        project_urls={
            "Homepage": HOME,
            "Documentation": f"{HOME}/tree/v{VERSION}/docs",
            "Changelog": f"{HOME}/blob/v{VERSION}/CHANGELOG.md",
            "Issues": f"{HOME}/issues",
        },
    )
