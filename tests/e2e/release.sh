#!/bin/bash
# scripts/release packs a program: every package has what it should, its program runs, and a second run writes the same bytes.
# The program of aarch64 is a small one here: its packages are read, not run.
set -uo pipefail
fails=0
fail() { echo "FAIL $*"; fails=1; }
arch=$(uname -m)
[ "$arch" = x86_64 ] || { echo "programs of other architectures than x86_64 are not packed"; exit 77; }
for tool in dpkg-deb cmake aarch64-linux-gnu-gcc; do command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }; done
for library in $(python3 -c 'import json; print(*(l["package"] for l in json.load(open("packaging/libraries.json"))))'); do
  [ -e "/usr/share/doc/$library/copyright" ] || { echo "$library is not installed"; exit 77; }
done
out=$TMPDIR/out
export SOURCE_DATE_EPOCH=1700000000
echo 'int main(void) { return 0; }' >"$TMPDIR/main.c"
aarch64-linux-gnu-gcc -static -o "$TMPDIR/small" "$TMPDIR/main.c" || exit 1
scripts/release --program "$arch=$RLXC" --program "aarch64=$TMPDIR/small" --url https://example.com/rlxc -o "$out" --check >"$TMPDIR/log" 2>&1 ||
  { cat "$TMPDIR/log"; exit 1; }
version=$("$RLXC" --version | sed -n '1s/^rlxc //p')
(cd "$out" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS"
[ "$(find "$out" -type f | wc -l)" -eq $(($(wc -l <"$out/SHA256SUMS") + 1)) ] || fail "files without a checksum"
scripts/release --program "sparc=$RLXC" -o "$TMPDIR/none" >"$TMPDIR/log" 2>&1 && fail "an unknown architecture"
grep -q 'takes x86_64=FILE or aarch64=FILE' "$TMPDIR/log" || fail "message for an unknown architecture"

# Programs of packages: same version, same results.
"$RLXC" compile examples/mlp.json -q -o "$TMPDIR/expected" || exit 1
runs() { # name, command
  local name=$1
  shift
  "$@" --version | diff - <("$RLXC" --version) || fail "$name: --version"
  rm -rf "$TMPDIR/found"
  "$@" compile examples/mlp.json -q -o "$TMPDIR/found" && diff -r "$TMPDIR/found" "$TMPDIR/expected" || fail "$name: results"
}
strip -o "$TMPDIR/stripped" "$RLXC"
is_program() { cmp "$1" "$TMPDIR/stripped" && [ -x "$1" ] || fail "$1 is not the program"; }
pages=$("$RLXC" completion fish | grep -c __fish_use_subcommand)

# The tarball.
tar -xzf "$out/rlxc-$version-linux-$arch.tar.gz" -C "$TMPDIR" || fail "tarball"
top=$TMPDIR/rlxc-$version-linux-$arch
is_program "$top/bin/rlxc"
runs tarball "$top/bin/rlxc"
[ "$(find "$top/share/man/man1" -name 'rlxc-*.1' | wc -l)" -eq "$pages" ] || fail "a command has no page"
for file in bash-completion/completions/rlxc zsh/vendor-completions/_rlxc fish/vendor_completions.d/rlxc.fish doc/rlxc/LICENSE; do
  [ -s "$top/share/$file" ] || fail "no $file in the tarball"
done
python3 - "$out" <<'PY' || fail "entries of archives"
import pathlib, sys, tarfile
archives = sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.name.endswith((".tar.gz", ".tgz")))
assert len(archives) == 5, archives
for path in archives:
    entries = tarfile.open(path).getmembers()
    assert [e.name for e in entries] == sorted(e.name for e in entries), path
    assert {(e.uid, e.gid, e.uname, e.mtime) for e in entries} == {(0, 0, "", 1700000000)}, path
    assert all(e.isfile() and e.mode == (0o755 if e.name.endswith(("bin/rlxc", ".js")) else 0o644) for e in entries), path
PY

# Licences: each library, and the texts that theirs refer to.
notices=$top/share/doc/rlxc/third-party-licenses.txt
for text in 'glibc: LGPL' 'GCC RUNTIME LIBRARY EXCEPTION' 'zlib: Zlib' 'CLI11: BSD' 'fmt: MIT' 'nlohmann_json: MIT' 'spdlog: MIT' 'stb_image: ' \
  'GNU LESSER GENERAL PUBLIC LICENSE' 'GNU GENERAL PUBLIC LICENSE'; do
  grep -q "$text" "$notices" || fail "no $text in the licences"
done

# The Debian packages.
dpkg -x "$out/rlxc_${version}_amd64.deb" "$TMPDIR/deb" && dpkg -e "$out/rlxc_${version}_amd64.deb" "$TMPDIR/deb/DEBIAN" || fail "dpkg"
is_program "$TMPDIR/deb/usr/bin/rlxc"
runs deb "$TMPDIR/deb/usr/bin/rlxc"
(cd "$TMPDIR/deb" && md5sum --check --quiet DEBIAN/md5sums) || fail "md5sums"
[ "$(find "$TMPDIR/deb/usr" -type f | wc -l)" -eq "$(wc -l <"$TMPDIR/deb/DEBIAN/md5sums")" ] || fail "files without md5sum"
[ "$(find "$TMPDIR/deb/usr/share/man" -name 'rlxc-*.1.gz' | wc -l)" -eq "$pages" ] || fail "pages of the Debian package"
for field in "Package rlxc" "Version $version" "Architecture amd64"; do
  [ "$(dpkg-deb -f "$out/rlxc_${version}_amd64.deb" "${field% *}")" = "${field#* }" ] || fail "deb: $field"
done
[ "$(dpkg-deb -f "$out/rlxc_${version}_arm64.deb" Architecture)" = arm64 ] || fail "deb of arm64"
dpkg-deb -c "$out/rlxc_${version}_amd64.deb" | awk '$2 != "root/root" || $4 != "2023-11-14" { print; bad = 1 } END { exit bad }' || fail "deb: owner or time"
grep -q 'Apache License' "$TMPDIR/deb/usr/share/doc/rlxc/copyright" && grep -q 'zlib: Zlib' "$TMPDIR/deb/usr/share/doc/rlxc/copyright" || fail "copyright"

# The wheels. A static program runs with every libc.
static_tags=manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64
wheel=$out/rlxc-$version-py3-none-$static_tags.whl
python3 - "$wheel" "rlxc-$version.dist-info" <<'PY' || fail "wheel of a static program: $(cd "$out" && echo *.whl)"
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
tags = [line.removeprefix("Tag: ") for line in wheel.read(f"{sys.argv[2]}/WHEEL").decode().splitlines() if line.startswith("Tag: ")]
assert tags == [f"py3-none-{libc}_aarch64" for libc in ("manylinux2014", "manylinux_2_17", "musllinux_1_1")], tags
assert b"zlib: Zlib" in wheel.read(f"{sys.argv[2]}/third-party-licenses.txt")
PY
if python3 -c 'import ensurepip' 2>/dev/null; then
  python3 -m venv "$TMPDIR/venv" &&
    "$TMPDIR/venv/bin/pip" install -q --no-index --disable-pip-version-check "$out"/rlxc-*_x86_64.whl || fail "pip"
  runs wheel "$TMPDIR/venv/bin/rlxc"
else
  echo "without python3-venv: pip not tried"
fi

# npm: the main package finds the program of the platform's package.
modules=$TMPDIR/node/node_modules
mkdir -p "$modules/@rlxc/linux-x64" "$modules/rlxc"
tar -xzf "$out/rlxc-npm-$version.tgz" -C "$modules/rlxc" --strip-components=1 || fail "npm package"
python3 - "$modules/rlxc/package.json" "$version" <<'PY' || fail "package.json"
import json, sys
about = json.load(open(sys.argv[1]))
assert about["version"] == sys.argv[2] and about["bin"] == {"rlxc": "rlxc.js"}
assert about["optionalDependencies"] == {"@rlxc/linux-x64": sys.argv[2], "@rlxc/linux-arm64": sys.argv[2]}
PY
if command -v node >/dev/null; then
  launcher=$modules/rlxc/rlxc.js
  "$launcher" --version 2>"$TMPDIR/log"
  [ $? -eq 9 ] && grep -q '@rlxc/linux-x64 is not installed' "$TMPDIR/log" || fail "the launcher without a program"
  tar -xzf "$out/rlxc-npm-linux-x64-$version.tgz" -C "$modules/@rlxc/linux-x64" --strip-components=1 || fail "npm package of the platform"
  is_program "$modules/@rlxc/linux-x64/bin/rlxc"
  runs npm node "$launcher"
  node "$launcher" compile "$TMPDIR/none.onnx" 2>"$TMPDIR/ours"
  status=$?
  "$RLXC" compile "$TMPDIR/none.onnx" 2>"$TMPDIR/theirs"
  [ $? -eq $status ] && diff "$TMPDIR/ours" "$TMPDIR/theirs" || fail "exit code of the launcher"
  # A signal to the launcher ends the program, and then the launcher by the same signal. The program waits for input here.
  mkfifo "$TMPDIR/fifo"
  node "$launcher" info - <"$TMPDIR/fifo" >"$TMPDIR/log" 2>&1 &
  pid=$!
  exec 8>"$TMPDIR/fifo"
  for _ in $(seq 100); do pgrep -P $pid -x rlxc >/dev/null && break; sleep 0.1; done
  child=$(pgrep -P $pid -x rlxc) || fail "the launcher starts no program"
  kill -TERM $pid
  wait $pid
  [ $? -eq 143 ] || fail "exit status of the launcher after a signal"
  kill -0 "$child" 2>/dev/null && fail "the program outlives its launcher"
  exec 8>&-
else
  echo "without node: the launcher is not tried"
fi

# Dockerfile and formula name files of the release.
for target in amd64 arm64; do
  [ -e "$out/$(sed -n 's/^COPY \([^ ]*\.deb\) .*/\1/p' "$out/Dockerfile" | sed "s/\${TARGETARCH}/$target/")" ] || fail "Dockerfile: no package for $target"
done
for machine in x86_64 aarch64; do
  grep -A1 "url \"https://example.com/rlxc/rlxc-$version-linux-$machine.tar.gz\"" "$out/rlxc.rb" |
    grep -q "sha256 \"$(sha256sum <"$out/rlxc-$version-linux-$machine.tar.gz" | cut -d' ' -f1)\"" || fail "formula: $machine"
done
grep -q '@[A-Z]' "$out/rlxc.rb" "$out/Dockerfile" && fail "a template has a gap"
if command -v ruby >/dev/null; then ruby -c "$out/rlxc.rb" >/dev/null || fail "formula: syntax"; fi

# The SBOM.
python3 - "$out" "$version" <<'PY' || fail "SBOM"
import hashlib, json, pathlib, re, sys
out, version = pathlib.Path(sys.argv[1]), sys.argv[2]
name = f"rlxc-{version}.spdx.json"
bom = json.loads((out / name).read_text())
assert bom["spdxVersion"] == "SPDX-2.3" and bom["dataLicense"] == "CC0-1.0" and bom["SPDXID"] == "SPDXRef-DOCUMENT"
assert bom["creationInfo"] == {"created": "2023-11-14T22:13:20Z", "creators": ["Tool: scripts/release"]}
assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bom["documentNamespace"])
ids = [bom["SPDXID"]] + [part["SPDXID"] for part in bom["packages"] + bom["files"]]
assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
for relation in bom["relationships"]:
    assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= set(ids), relation
libraries = {l["name"]: l["license"] for l in json.load(open("packaging/libraries.json"))}
assert {p["name"]: p["licenseDeclared"] for p in bom["packages"]} == {"rlxc": "Apache-2.0", **libraries}
assert all(p["versionInfo"] and p["downloadLocation"] and "filesAnalyzed" in p for p in bom["packages"])
files = {f["fileName"].removeprefix("./"): {c["algorithm"]: c["checksumValue"] for c in f["checksums"]} for f in bom["files"]}
assert set(files) == {p.name for p in out.iterdir()} - {name, "SHA256SUMS"}
for file, sums in files.items():
    data = (out / file).read_bytes()
    assert sums == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}, file
PY

# The installer of continuous integration.
if command -v curl >/dev/null; then
  examples/ci/install.sh "file://$out" "$version" "$TMPDIR/prefix" >/dev/null || fail "install.sh"
  is_program "$TMPDIR/prefix/bin/rlxc"
  mkdir "$TMPDIR/damaged" && cp "$out/SHA256SUMS" "$out/rlxc-$version-linux-$arch.tar.gz" "$TMPDIR/damaged"
  printf x >>"$TMPDIR/damaged/rlxc-$version-linux-$arch.tar.gz"
  examples/ci/install.sh "file://$TMPDIR/damaged" "$version" "$TMPDIR/prefix2" 2>"$TMPDIR/log" && fail "install.sh takes a damaged file"
  grep -q 'has another checksum' "$TMPDIR/log" && [ ! -e "$TMPDIR/prefix2" ] || fail "install.sh: message"
else
  echo "without curl: install.sh is not tried"
fi

# A static program needs nothing else: a folder that has only the program and a model is its root.
if "$RLXC" --version | grep -q '^features: static'; then
  mkdir "$TMPDIR/root" && cp "$top/bin/rlxc" examples/bert.onnx examples/mlp.json "$TMPDIR/root"
  PATH=$PATH:/usr/sbin
  if unshare -r chroot "$TMPDIR/root" /rlxc --version >/dev/null 2>&1; then
    bare() { env -i "$(command -v unshare)" -r "$(command -v chroot)" "$TMPDIR/root" /rlxc "$@"; }
    bare compile bert.onnx --target cpu -q -o out && "$RLXC" compile examples/bert.onnx --target cpu -q -o "$TMPDIR/cpu" &&
      diff -r "$TMPDIR/root/out" "$TMPDIR/cpu" || fail "compile in an empty root"
    bare run mlp.json --random --engine reference >/dev/null || fail "run in an empty root"
    bare run mlp.json --random 2>"$TMPDIR/log"
    [ $? -eq 9 ] && grep -q 'this build of rlxc is static' "$TMPDIR/log" || fail "kernels of a static program"
  else
    echo "without user namespaces: no empty root"
  fi
fi
exit $fails
