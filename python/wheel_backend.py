"""`pip wheel .` packs the program that scripts/build makes, so that it shares the objects of other builds. A backend of PEP 517
without requirements: it works offline. RLXC in the environment names a program that is built already, RLXC_MODULE a module, and
RLXC_NOTICES a file of licences of libraries that the program has in it."""

import base64
import hashlib
import os
import pathlib
import platform
import re
import struct
import subprocess
import sys
import sysconfig
import zipfile

TOP = pathlib.Path(__file__).resolve().parent.parent


def version():
    return re.search(r"project\(rlxc VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text()).group(1)


def static_machine(program):
    """The machine of a static program for Linux; None if a dynamic linker starts the program."""
    machine = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(program[18:20], "little"))
    if program[:6] != b"\x7fELF\x02\x01" or machine is None:
        return None
    first, = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    types = [struct.unpack_from("<I", program, first + i * size)[0] for i in range(count)]
    return None if 3 in types else machine  # PT_INTERP


def tags(program, has_module):
    """A static program runs with every libc. Another needs the libc and libm of this machine or newer ones, and no Python; the module
    needs this one."""
    if machine := static_machine(program):
        return [f"py3-none-{libc}_{machine}" for libc in ("manylinux2014", "manylinux_2_17", "musllinux_1_1")]
    libc, number = platform.libc_ver()
    if platform.system() != "Linux" or libc != "glibc":
        raise SystemExit(f"wheel: {platform.system()} with {libc or 'an unknown libc'} has no tag: Linux with glibc has")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    python = f"{python}-{python}" if has_module else "py3-none"
    return [f"{python}-manylinux_{number.replace('.', '_')}_{platform.machine()}"]


def program():
    if "RLXC" in os.environ:
        return pathlib.Path(os.environ["RLXC"])
    subprocess.run([TOP / "scripts/build", "rlxc"], check=True)
    return TOP / "build/rlxc"


def module():
    """The compiled module for this Python; None without the headers that it needs, or beside a program that RLXC names."""
    if "RLXC" in os.environ:
        return pathlib.Path(os.environ["RLXC_MODULE"]) if "RLXC_MODULE" in os.environ else None
    python = getattr(sys, "_base_executable", sys.executable)
    subprocess.run(["cmake", f"-DRLXC_PYTHON={python}", TOP / "build"], check=True, stdout=subprocess.DEVNULL)
    if "rlxc_native" not in (TOP / "build/build.ninja").read_text():
        return None
    subprocess.run([TOP / "scripts/build", "rlxc_python"], check=True)
    return TOP / "build/python/rlxc" / ("_native" + sysconfig.get_config_var("EXT_SUFFIX"))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"rlxc-{version()}.dist-info"
    files = {f"rlxc/{file.name}": file.read_bytes() for file in sorted((TOP / "python/rlxc").iterdir()) if file.is_file()}
    files["rlxc/bin/rlxc"] = program().read_bytes()
    native = module()
    if native:
        files[f"rlxc/{native.name}"] = native.read_bytes()
    own = tags(files["rlxc/bin/rlxc"], native is not None)
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: rlxc\nVersion: {version()}\nSummary: A compiler driver for ONNX, GGUF and JSON models\n"
        "Requires-Python: >=3.8\nLicense-File: LICENSE\n").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: rlxc\nRoot-Is-Purelib: false\n".encode()
    files[f"{info}/WHEEL"] += "".join(f"Tag: {one}\n" for one in own).encode()
    files[f"{info}/entry_points.txt"] = (
        b"[console_scripts]\nrlxc = rlxc.__main__:main\n\n[torch_dynamo_backends]\nrlxc = rlxc.torch:backend\n")
    files[f"{info}/LICENSE"] = (TOP / "LICENSE").read_bytes()
    if "RLXC_NOTICES" in os.environ:
        files[f"{info}/third-party-licenses.txt"] = pathlib.Path(os.environ["RLXC_NOTICES"]).read_bytes()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    python = own[0].rsplit("-", 1)[0]
    wheel = f"rlxc-{version()}-{python}-{'.'.join(one.rsplit('-', 1)[1] for one in own)}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: equal files make equal wheels
            entry.external_attr = (0o100755 if name == "rlxc/bin/rlxc" else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel
