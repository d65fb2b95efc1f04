#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, each with a budget in
# minutes, and stops at the first that fails. A stage over its budget is named
# and does not fail: a slow machine is no defect. What hangs is ended by the
# timeouts of the tests themselves.
#
# Usage: stages.sh MAKE STAGE:MINUTES...
set -euo pipefail

make_command=$1
shift
summary=()
for stage in "$@"; do
	name=${stage%:*}
	budget_s=$((${stage#*:} * 60))
	echo "== $name (budget $((budget_s / 60)) min)"
	started=$SECONDS
	# shellcheck disable=SC2086 # MAKE may carry variables
	if ! $make_command --no-print-directory "$name"; then
		echo "== $name FAILED after $((SECONDS - started)) s; run it alone: make $name" >&2
		exit 1
	fi
	took_s=$((SECONDS - started))
	note=""
	if ((took_s > budget_s)); then
		note="over its budget"
	fi
	summary+=("$(printf '%-10s %5d s of %5d s  %s' "$name" "$took_s" "$budget_s" "$note")")
done
echo "== all stages passed in $SECONDS s"
printf '   %s\n' "${summary[@]}"
