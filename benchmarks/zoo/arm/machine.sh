#!/bin/bash
# machine.sh FOLDER: an emulated Arm's Python with ONNX Runtime and LiteRT, and qemu's plugin that
# counts instructions. Debian's packages are unpacked there; nothing is installed on this machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${PYTHON:-python3}
versions=$("$python" -c 'from importlib.metadata import version as v
print(*(f"{n}=={v(n)}" for n in ("numpy", "onnxruntime", "ai-edge-litert")))')

mkdir -p "$folder"/{debs,wheels,root/proc,site} "$folder"/apt/{lists/partial,cache/archives/partial}
arm=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
  -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache")
(
  cd "$folder/debs"
  apt-get "${arm[@]}" -q update
  apt-get "${arm[@]}" -q download python3.11-minimal libpython3.11-minimal libpython3.11-stdlib \
    libc6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libgcc-s1 libstdc++6 libcrypt1
  for package in *.deb; do dpkg -x "$package" ../root; done
)
# shellcheck disable=SC2086
"$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 \
  --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 -d "$folder/wheels" $versions
for wheel in "$folder"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/site"; done

# qemu shows programs the x86 processor of this machine, and ONNX Runtime dies of that: a Neoverse
# N1, as `-cpu neoverse-n1` is one.
for core in 0 1; do
  printf 'processor\t: %s\nFeatures\t: %s\n' $core \
    'fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp'
  printf 'CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n'
  printf 'CPU part\t: 0xd0c\nCPU revision\t: 1\n\n'
done >"$folder/root/proc/cpuinfo"

cc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden \
  -o "$folder/count.so" "$here/count.c"
