#!/usr/bin/env bash
# Runs every Go fuzz target of the tree for a while, one after the other: fuzz.sh [time for each, 10s]
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-10s}

targets=$(git ls-files '*_test.go' | xargs grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/' || true)
[ -n "$targets" ] || { echo "fuzz: no fuzz targets in the tree" >&2; exit 1; }
while IFS=: read -r file target; do
	echo "== $target in $(dirname "$file")"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$duration"
done <<<"$targets"
