"""What the wheel needs and pyproject.toml can not say: version, library, tag.

The version is that of the binary, from the environment variable
SEALSTONE_VERSION as `make python` sets it, else from git. The library is the
one that SEALSTONE_LIBRARY names, else bin/libsealstone.so of the repository.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE = Path(__file__).resolve().parent
LIBRARY = "libsealstone.so"


def described() -> str:
    """What `git describe` says, as the Makefile asks it."""
    asked = ["git", "describe", "--tags", "--always", "--dirty"]
    done = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "dev"


def pep440(text: str) -> str:
    """The version in the spelling that Python's packages allow.

    v1.2.3 is a release; v1.2.3-4-gabc0123 came after it; without a tag there is
    only a revision, or not even that.
    """
    dirty = text.endswith("-dirty")
    text = text.removesuffix("-dirty")
    local: list[str] = []
    tagged = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:-(\d+)-g([0-9a-f]+))?", text)
    if tagged and (tagged[3] or "." in tagged[1]):
        version = tagged[1]
        if tagged[3]:
            version += f".post{tagged[2]}"
            local.append(f"g{tagged[3]}")
    else:
        version = "0"
        local.append(re.sub(r"[^0-9a-zA-Z]+", ".", text).strip(".") or "dev")
        if re.fullmatch(r"[0-9a-f]+", text):
            local[0] = "g" + text
    if dirty:
        local.append("dirty")
    return version + ("+" + ".".join(local) if local else "")


class CustomMetadataHook(MetadataHookInterface):
    """Gives the version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling."""
        metadata["version"] = pep440(os.environ.get("SEALSTONE_VERSION") or described())


class CustomBuildHook(BuildHookInterface):
    """Puts the library into the wheel, which then fits one kind of machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling."""
        library = Path(os.environ.get("SEALSTONE_LIBRARY") or HERE.parents[1] / "bin" / LIBRARY)
        if version == "editable":
            return  # finds the library by SEALSTONE_LIBRARY when it runs
        if not library.is_file():
            raise FileNotFoundError(f"{library} is not there: run `make lib` first")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
        build_data["force_include"][str(library.resolve())] = f"sealstone/{LIBRARY}"
