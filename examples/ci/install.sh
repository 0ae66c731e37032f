#!/bin/sh
# Installs rlxc from the files of a release, for Linux on x86_64 and aarch64. The checksum is compared first.
# usage: install.sh URL VERSION PREFIX     URL is the folder of the files: https://... or file://...
set -eu
[ $# -eq 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
file=rlxc-$2-linux-$(uname -m).tar.gz
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in "$file" SHA256SUMS; do
  curl --fail --silent --show-error --location "$1/$name" --output "$scratch/$name" || { echo "install.sh: no $1/$name" >&2; exit 1; }
done
(cd "$scratch" && grep -F " $file" SHA256SUMS | sha256sum --check --status -) || { echo "install.sh: $file has another checksum" >&2; exit 1; }
mkdir -p "$3"
tar -xzf "$scratch/$file" -C "$3" --strip-components=1
"$3/bin/rlxc" --version
