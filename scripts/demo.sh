#!/usr/bin/env bash
# Builds Pillion and runs the main job end to end on this machine. usage: scripts/demo.sh [pillion demo arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset dev
cmake --build --preset dev --target pillion pillion-demo
exec build/dev/bin/pillion demo "$@"
