#!/usr/bin/env bash
# Runs every fuzz function of the module for a while, two at a time with one
# worker each. A failing input is left under testdata/fuzz of its package, to
# be committed with the fix.
#
# Usage: fuzz.sh TIME (as -fuzztime takes it: 10s, 2m, 1000x)
# GO names the go command. FUZZ_MATCH, a regular expression over
# "package-directory FuzzName", picks some of the functions.
set -euo pipefail

fuzztime=$1
go=${GO:-go}
match=${FUZZ_MATCH:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Packages with fuzz functions, then one instrumented test binary for each.
# Functions under a build tag that is not set are not in the binary and so not
# in its list.
dirs=$({ grep -rl --include='*_test.go' '^func Fuzz' . || true; } | sed 's|^\./||' | xargs -r -n1 dirname | sort -u)
list=$work/list
: >"$list"
for dir in $dirs; do
	binary=$work/${dir//\//_}.test
	$go test -c -fuzz=Fuzz -o "$binary" "./$dir"
	(cd "$dir" && "$binary" -test.list '^Fuzz') | sed -n '/^Fuzz/p' | while read -r name; do
		echo "$dir $name $binary"
	done >>"$list"
done
awk -v m="$match" '($1 " " $2) ~ m' "$list" >"$work/chosen"
total=$(wc -l <"$work/chosen")
if ((total == 0)); then
	echo "fuzz: no fuzz function found" >&2
	exit 1
fi
echo "fuzz: $total functions in $(wc -w <<<"$dirs") package(s), $fuzztime each"

# -fuzzminimizetime=1x: inputs of a page and more would else be minimised for
# nearly the whole of a short run, with a handful of executions to show for it.
#
# one_fuzz DIR NAME BINARY: prints one line, or the whole output on failure.
# The fuzzing engine at times reports its own deadline as a failure; without a
# failing input that says nothing about the code, and is tried once more.
one_fuzz() {
	local dir=$1 name=$2 binary=$3 out status
	for try in 1 2; do
		status=0
		out=$(cd "$dir" && "$binary" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$fuzztime" \
			-test.fuzzminimizetime=1x -test.fuzzcachedir="$work/cache/$dir" \
			-test.parallel=1 -test.timeout=60m 2>&1) || status=$?
		if ((status == 0)); then
			printf 'ok    %-22s %-34s %s\n' "$dir" "$name" "$(grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1)"
			return 0
		fi
		if ! grep -q 'context deadline exceeded' <<<"$out" || grep -q 'Failing input written' <<<"$out"; then
			break
		fi
		echo "retry $dir $name (try $try ended in the fuzzing engine's own deadline)"
	done
	printf 'FAIL  %s %s\n%s\n' "$dir" "$name" "$out"
	return 1
}
export -f one_fuzz
export fuzztime work

# xargs answers 123 if any of them failed; all of them run first.
xargs -r -P 2 -n 3 bash -c 'one_fuzz "$@"' _ <"$work/chosen"
