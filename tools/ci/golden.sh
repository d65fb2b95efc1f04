#!/usr/bin/env bash
# Rewrites the golden files of all packages from what the code does now.
# Tests with golden files define the flag -update; datadriven tests know
# -rewrite. Look at the diff before you commit it.
set -euo pipefail

go=${GO:-go}
# packages PATTERN: packages whose tests contain it.
packages() { { grep -rlE --include='*_test.go' "$1" . || true; } | xargs -r -n1 dirname | sort -u; }

update=$(packages 'flag\.Bool\("update"')
rewrite=$(packages 'datadriven\.(RunTest|Walk)')
[ -z "$update" ] || $go test -timeout 10m $update -update
[ -z "$rewrite" ] || $go test -timeout 10m $rewrite -rewrite
git status --short -- '*testdata*'
