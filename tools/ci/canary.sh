#!/usr/bin/env bash
# Shows that the tests which guard a law fail when the law is broken.
#
# A build with the tag "canary" breaks the law that the environment variable
# SEALSTONE_CANARY names. The tests of law N are called TestLawN...: they must
# pass while the variable is unset, and fail, as tests and not by a panic, a
# build error or a hang, when it is set. A build without the tag must not know
# the variable at all.
#
# With SEALSTONE_CANARY_LOG set, a line for each law is added to that file.
#
# Usage: canary.sh PACKAGE LAW... (e.g. ./engine law1 law3)
set -euo pipefail

package=$1
shift
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SEALSTONE_CANARY SEALSTONE_FAULT_LOG

# log LAW CAUGHT: keeps whether a broken law was noticed.
log() {
	[ -z "${SEALSTONE_CANARY_LOG:-}" ] || printf '{"test":"canary %s %s","canaries":1,"canaries_caught":%d}\n' \
		"$package" "$1" "$2" >>"$SEALSTONE_CANARY_LOG"
}

die() {
	echo "canary: $*" >&2
	[ -z "${law:-}" ] || log "$law" 0
	exit 1
}

$go test -tags canary -c -o "$work/canary.test" "$package"
$go test -c -o "$work/plain.test" "$package"
cd "$package"

# run BINARY PATTERN FLAGS...: runs its tests in the package's folder.
run() {
	local binary=$1 pattern=$2
	shift 2
	"$work/$binary.test" -test.run "$pattern" -test.timeout=5m -test.v "$@"
}

for law in "$@"; do
	pattern="^TestLaw${law#law}"
	names=$("$work/canary.test" -test.list "$pattern" | grep '^Test' || true)
	[ -n "$names" ] || die "$law: no test matches $pattern in $package"

	# Short: that all is well is what the other stages look at in full.
	run canary "$pattern" -test.short >"$work/whole" 2>&1 ||
		{ cat "$work/whole"; die "$law: its tests fail although the law is not broken"; }
	# A binary without the variable's name in it can not look it up.
	if grep -qa SEALSTONE_CANARY "$work/plain.test"; then
		SEALSTONE_CANARY=$law run plain "$pattern" -test.short >"$work/plain" 2>&1 ||
			{ cat "$work/plain"; die "$law: a build without the tag heeds SEALSTONE_CANARY"; }
	fi

	# A failure ends the search: the long versions run only if the short ones
	# notice nothing.
	status=0
	SEALSTONE_CANARY=$law run canary "$pattern" -test.short >"$work/broken" 2>&1 || status=$?
	if ((status == 0)); then
		SEALSTONE_CANARY=$law run canary "$pattern" >"$work/broken" 2>&1 || status=$?
	fi
	((status != 0)) || { cat "$work/broken"; die "$law is broken on purpose and no test of it fails"; }
	if ((status != 1)) || grep -qE '^(panic:|fatal error:|unexpected fault address)' "$work/broken"; then
		cat "$work/broken"
		die "$law: the tests ended in a crash or a hang (exit status $status), not in a failure"
	fi
	failed=$(grep -oE '^--- FAIL: [A-Za-z0-9_]+' "$work/broken" | cut -d' ' -f3 | sort -u || true)
	[ -n "$failed" ] || { cat "$work/broken"; die "$law: no test reported a failure"; }
	log "$law" 1
	echo "canary: $law broken on purpose: caught by" $failed "(of" $(wc -l <<<"$names") "tests)"
done
