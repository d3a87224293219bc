#!/usr/bin/env bash
# Builds everything and runs all tests. usage: scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset dev
cmake --build --preset dev
ctest --preset dev -j 2 --repeat until-pass:2 "$@"
