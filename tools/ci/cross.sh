#!/usr/bin/env bash
# Builds for systems other than this one, without cgo. On linux the whole
# module must build; darwin and windows have fallbacks for what their kernels
# lack.
set -euo pipefail

go=${GO:-go}
build() {
	local started=$SECONDS
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 $go build ./...
	echo "cross: $1/$2 builds ($((SECONDS - started)) s)"
}
build linux amd64
build linux arm64
build darwin arm64
build windows amd64
