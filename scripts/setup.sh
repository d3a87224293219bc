#!/usr/bin/env bash
# Installs every package that Pillion builds and tests with (Debian 12; root or sudo).
set -euo pipefail

packages="
  cmake ninja-build g++ ccache lld pkg-config
  libzmq3-dev cppzmq-dev libcapnp-dev capnproto librocksdb-dev libspdlog-dev libcli11-dev
  nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libjpeg-dev libpng-dev zlib1g-dev
  propaganda-debian
"
# Optional: the pipeline trainer and the training side tasks. PILLION_SETUP_TORCH=0 leaves them out.
if [ "${PILLION_SETUP_TORCH:-1}" = 1 ]; then
  packages="$packages libtorch-dev libopenblas0-serial"
fi

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
echo "setup: installing$missing" >&2
$as_root apt-get update -q
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q --no-install-recommends $missing
