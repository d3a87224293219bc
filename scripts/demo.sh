#!/usr/bin/env bash
# Builds Pillion and runs the main job end to end on this machine. usage: scripts/demo.sh [pillion demo arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
# On stdout there is nothing but what the demo prints.
scripts/setup.sh >&2
cmake --preset dev >&2
cmake --build --preset dev --target pillion pillion-demo >&2
exec build/dev/bin/pillion demo "$@"
