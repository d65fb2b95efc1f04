#!/usr/bin/env bash
# Runs the fault matrix: every test named TestFault... or TestLaw..., and the
# canaries. The last line of standard output is JSON: what was tried, and what
# came of it. See docs/faults/README.md.
#
# Usage: faults.sh full|quick
set -euo pipefail

size=$1
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SEALSTONE_FAULT_LOG=$work/log
: >"$SEALSTONE_FAULT_LOG"

case $size in
full)
	export SEALSTONE_FULL=1
	flags=(-timeout 180m)
	;;
quick) flags=(-short -timeout 10m) ;;
*)
	echo "usage: faults.sh full|quick" >&2
	exit 2
	;;
esac

# tests FOLDER PATTERN PACKAGE...: runs the tests of the matrix there whose names
# begin with PATTERN.
tests() {
	local folder=$1 pattern=$2
	shift 2
	"$go" -C "$folder" test -count=1 -p 2 -run "^Test($pattern)" "${flags[@]}" "$@" >&2
}

# Most of the time goes into package engine, one test after the other: it is
# run as two halves that share the processors.
mapfile -t others < <("$go" list ./engine/... ./gpu/... ./wal/... ./tiers/... ./internal/... ./tools/... | grep -v '/sealstone/engine$')
status=0
tests . Law ./engine &
laws=$!
tests . Fault ./engine || status=1
tests . 'Fault|Law' "${others[@]}" || status=1
wait "$laws" || status=1
tests tools/fsmatrix 'Fault|Law' . || status=1
for canary in "./engine law1 law2 law2GPU law3 law4 law5 law6" "./engine/index law5" "./tiers/disk law6" "./gpu law2" "./gpu/canary law6"; do
	# The canary's own runs of the tests are no part of the count.
	# shellcheck disable=SC2086 # a package and its laws
	SEALSTONE_CANARY_LOG=$SEALSTONE_FAULT_LOG GO=$go tools/ci/canary.sh $canary >&2 || status=1
done

"$go" run ./tools/ci/faultsum "$SEALSTONE_FAULT_LOG" || status=1
exit $status
