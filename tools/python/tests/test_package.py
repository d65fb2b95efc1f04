"""The package itself: versions, the library it carries, what it does not do."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, run_python

import sealstone
from sealstone import LibraryError, Status, _abi

HEADER = ROOT / "tools" / "libsealstone" / "sealstone.h"


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "hatch_build", ROOT / "tools" / "python" / "hatch_build.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v1.2.3", "1.2.3"),
        ("1.2", "1.2"),
        ("v1.2.3-dirty", "1.2.3+dirty"),
        ("v1.2.3-4-gabc0123", "1.2.3.post4+gabc0123"),
        ("v1.2.3-4-gabc0123-dirty", "1.2.3.post4+gabc0123.dirty"),
        ("4f25dfd", "0+g4f25dfd"),
        ("1234567", "0+g1234567"),
        ("4f25dfd-dirty", "0+g4f25dfd.dirty"),
        ("dev", "0+dev"),
        ("some_branch/x", "0+some.branch.x"),
        ("", "0+dev"),
    ],
)
def test_versions_of_git_as_python_has_them(described: str, version: str) -> None:
    from packaging.version import Version

    assert hook().pep440(described) == version
    Version(version)


def test_version_is_that_of_the_library() -> None:
    assert sealstone.__version__ == distribution("sealstone").version
    assert hook().pep440(sealstone.library_version()) == sealstone.__version__


def test_nothing_else_is_needed_to_run() -> None:
    assert not distribution("sealstone").requires
    assert (Path(sealstone.__file__).parent / "py.typed").is_file()


def test_every_name_says_what_it_means() -> None:
    for name in sealstone.__all__:
        if name not in ("__version__", "Hash", "Memory", "Scatter"):
            assert (getattr(sealstone, name).__doc__ or "").strip(), name


def test_statuses_are_those_of_the_header() -> None:
    declared = dict(re.findall(r"SEALSTONE_([A-Z_]+) = (\d+),? +/\*", HEADER.read_text()))
    ours = {s.name: str(int(s)) for s in Status}
    assert ours.items() <= declared.items()
    assert {n for n in declared if int(declared[n]) >= 5} - set(ours) <= {
        "HEALTH_UNREACHED",
        "OP_DROP",
        "RESULT_DURABLE",
    }


def test_functions_are_declared() -> None:
    header = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    for name, takes in {**_abi._LONG, **_abi._SHORT}.items():
        found = re.search(rf"sealstone_{name}\(([^)]*)\)", header)
        assert found, name
        assert found[1].count(",") + 1 == len(takes), name


def test_import_loads_no_library() -> None:
    done = run_python(
        "import sealstone; print('libsealstone' in open('/proc/self/maps').read())",
        SEALSTONE_LIBRARY="/nowhere/libsealstone.so",
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("library", "said"),
    [("/nowhere/lib.so", "can not be loaded"), ("libc.so.6", "is not libsealstone")],
)
def test_library_that_is_not_there(library: str, said: str, tmp_path: Path) -> None:
    done = run_python(
        "import sealstone, sys\n"
        "try: sealstone.Store(dir=sys.argv[1])\n"
        "except sealstone.LibraryError as err: print(err)",
        tmp_path,
        SEALSTONE_LIBRARY=library,
    )
    assert said in done.stdout, done.stderr


def test_library_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_abi, "ABI_VERSION", 1000)
    with pytest.raises(LibraryError, match="this package needs 1000"):
        _abi.Library(_abi.library_path())


def test_names_are_exported() -> None:
    source = Path(sealstone.__file__).read_text()
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
    }
    assert imported == set(sealstone.__all__) - {"library_version"}


def test_plain_pytest_of_another_interpreter(tmp_path: Path) -> None:
    """Without the package the tests say what to do."""
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *p: None if n == 'sealstone' else find(n, *p)\n"
    )
    done = run_python(
        "import subprocess, sys\n"
        "command = [sys.executable, '-m', 'pytest', '-q', sys.argv[1]]\n"
        "sys.exit(subprocess.run(command, stderr=subprocess.STDOUT).returncode)",
        ROOT / "tools" / "python" / "tests" / "test_layout.py",
        PYTHONPATH=str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""),
    )
    assert "run `make python`" in done.stdout, done.stdout
    assert sys.executable in done.stdout
