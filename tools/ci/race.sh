#!/usr/bin/env bash
# Runs the tests of packages under the race detector with -short. The longest
# package is run as two halves beside each other, every other test in each:
# its tests run one after the other, and would keep one processor busy long
# after the others are done.
#
# Usage: race.sh TIMEOUT LONGEST PACKAGE... (the longest may be among them)
set -euo pipefail

timeout=$1 longest=$2
shift 2
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The race detector is not to be had in position-independent executables.
name=$("$go" list "$longest")
mapfile -t others < <("$go" list "$@" | grep -vxF "$name")
"$go" test -buildmode=default -race -c -o "$work/longest.test" "$longest"
(cd "$longest" && "$work/longest.test" -test.list '^(Test|Fuzz|Example)') >"$work/names"
grep -E '^(Test|Fuzz|Example)' "$work/names" | awk -v out="$work/half" '{ print > (out (NR % 2)) }'

# half N: runs it, and prints its output only when it has ended.
half() {
	local status=0
	[ -s "$work/half$1" ] || return 0
	(cd "$longest" && "$work/longest.test" -test.short -test.timeout="$timeout" \
		-test.run "^($(paste -sd'|' "$work/half$1"))\$") >"$work/output$1" 2>&1 || status=$?
	if ((status != 0)); then
		cat "$work/output$1"
		echo "FAIL  $name, half $1 of its tests"
		return 1
	fi
	echo "ok    $name, $(wc -l <"$work/half$1") tests of $(wc -l <"$work/names"), $SECONDS s"
}

half 0 &
first=$!
half 1 &
second=$!
status=0
wait "$first" || status=1
if ((${#others[@]})); then
	"$go" test -buildmode=default -race -short -p 2 -timeout "$timeout" "${others[@]}" || status=1
fi
wait "$second" || status=1
exit $status
