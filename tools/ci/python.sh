#!/usr/bin/env bash
# Builds the wheel of tools/python into bin/ and installs it in the virtual
# environment bin/venv, with what its tests need. The environment is made anew
# only when the interpreter or the requirements changed.
#
# Usage: python.sh VERSION. PYTHON names the interpreter (python3).
set -euo pipefail

version=$1
python=${PYTHON:-python3}
venv=bin/venv
requirements=tools/python/requirements-dev.txt

if ! "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
	echo "python: Python 3.10 or newer with venv is needed (on Debian: apt-get install python3 python3-venv)" >&2
	exit 1
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }

want="$("$python" -VV; "$python" -c 'import sys; print(sys.executable)'; cat "$requirements")"
if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$want" ]; then
	rm -rf "$venv"
	"$python" -m venv "$venv"
	pip install -r "$requirements"
	printf '%s\n' "$want" >"$venv/made-for"
fi

# Where git would be asked for a version, the binary's own is given.
rm -f bin/sealstone-*.whl
SEALSTONE_VERSION=$version SEALSTONE_LIBRARY=$PWD/bin/libsealstone.so \
	pip wheel --no-deps --no-build-isolation --wheel-dir bin tools/python
pip install --no-deps --no-index --force-reinstall bin/sealstone-*.whl
echo "python: $(ls bin/sealstone-*.whl), installed in $venv"
