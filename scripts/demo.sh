#!/usr/bin/env bash
# Builds Pillion and shows it harvesting behind a trainer stand-in. usage: scripts/demo.sh [bench harvest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset dev
cmake --build --preset dev --target pillion pillion-bench
exec build/dev/bin/pillion bench harvest --device cpu "$@"
