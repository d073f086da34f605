#!/usr/bin/env python3
# timeout: 1800
"""TLS where the kernel has it, whatever kernel this machine has.

Debian's own kernel is started in a virtual machine (qemu, without a disk or a network, so no root is needed), with the
programs that were built, Python and what they link with in its memory; there guest.py loads the kernel's TLS and runs
the tests. All of it is interpreted: some minutes."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cluster import BUILD, ROOT  # noqa: E402

KERNEL = "linux-image-cloud-amd64"  # the smallest with CONFIG_TLS
MODULES = ["kernel/net/tls", "kernel/crypto", "kernel/arch/x86/crypto", "kernel/lib/crypto"]
PROGRAMS = ["tests/wire_tls_test", "ps/ps", "worker/worker", "launch/launch"]
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "depmod": "kmod"}
PYTHON = "/usr/bin/python3"  # Debian's own
DEADLINE_S = 1500
PASSED = "kernel_tls: passed"


def out_of(*command, cwd=None):
    return subprocess.run(list(map(str, command)), cwd=cwd, check=True, capture_output=True, text=True).stdout


def fetch_kernel(folder):
    """The package that the newest KERNEL stands for, unpacked: its image and the folder of its modules."""
    try:
        depends = out_of("apt-cache", "depends", "--important", KERNEL)
        package = next(line.split()[1] for line in depends.splitlines() if "Depends: linux-image-" in line)
        out_of("apt-get", "download", package, cwd=folder)
    except (subprocess.CalledProcessError, StopIteration) as wrong:
        why = getattr(wrong, "stderr", "").strip() or "no such package"
        raise unittest.SkipTest(f"Debian's {KERNEL} cannot be had: {why}")
    out_of("dpkg-deb", "-x", next(folder.glob("*.deb")), folder / "kernel")
    return next(folder.glob("kernel/boot/vmlinuz-*")), next(folder.glob("kernel/lib/modules/*"))


def libraries(files):
    """The files that the dynamic linker loads for them, itself included."""
    found = set()
    for line in out_of("ldd", *files).splitlines():
        words = line.split()
        if words and not line.endswith(":"):
            found.update(pathlib.Path(word) for word in words if word.startswith("/"))
    return found


def put(path, into):
    target = into / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def fill(guest, modules):
    """All that is in the virtual machine: this checkout, the programs, Python, openssl, the kernel's modules."""
    python = pathlib.Path(PYTHON).resolve()
    stdlib = pathlib.Path(out_of(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").strip())
    programs = [BUILD / name for name in PROGRAMS] + [python, pathlib.Path("/usr/bin/openssl")]
    extensions = list((stdlib / "lib-dynload").glob("*.so"))
    for path in {*programs, *libraries([*programs, *extensions])}:
        put(path, guest)
    (guest / "usr/bin/python3").symlink_to(python.name)
    shutil.copytree(stdlib, guest / str(stdlib).lstrip("/"),
                    ignore=shutil.ignore_patterns("test", "__pycache__", "idlelib", "lib2to3"))
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, guest / "gradwire" / name)
    put(shutil.which("busybox"), guest)
    version = guest / "lib/modules" / modules.name
    for name in MODULES:
        shutil.copytree(modules / name, version / name)
    for index in modules.glob("modules.*"):
        shutil.copy(index, version)
    out_of("depmod", "-b", guest, modules.name)
    for name in ("proc", "sys", "dev", "tmp", "etc", "sbin", "root"):
        (guest / name).mkdir(exist_ok=True)
    (guest / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (guest / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    config = pathlib.Path(out_of("openssl", "version", "-d").split('"')[1]) / "openssl.cnf"
    (guest / str(config).lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(config.resolve(), guest / str(config).lstrip("/"))
    busybox = f"/{shutil.which('busybox').lstrip('/')}"
    (guest / "sbin/modprobe").symlink_to(busybox)  # the kernel runs it to load a module
    init = guest / "init"
    init.write_text(f"""#!{busybox} sh
export PATH=/usr/bin HOME=/root LANG=C.UTF-8 GRADWIRE_ROOT=/gradwire GRADWIRE_BUILD={BUILD}
b={busybox}
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev; $b mount -t tmpfs tmp /tmp
$b ip link set lo up
$b ln -s /proc/self/fd /dev/fd
$b modprobe tls && python3 /gradwire/tests/kernel_tls/guest.py && echo '{PASSED}'
$b poweroff -f
""")
    init.chmod(0o755)


def pack(guest, image):
    names = b"\0".join(os.fsencode(path.relative_to(guest)) for path in sorted(guest.rglob("*")))
    with open(image, "wb") as out:
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--quiet"], cwd=guest, input=names, stdout=out,
                       check=True)


def run(kernel, image):
    """Shows what the virtual machine says; whether its last word was that all passed."""
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "4096", "-nographic",
               "-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", image, "-append", "console=ttyS0 quiet panic=-1"]
    passed = False
    with subprocess.Popen(["timeout", str(DEADLINE_S), *map(str, command)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, errors="replace") as machine:
        for line in machine.stdout:
            print(line, end="", flush=True)
            passed = passed or line.strip() == PASSED
    return passed


class KernelTlsTest(unittest.TestCase):
    def test_with_the_kernels_tls_the_wire_holds_and_a_job_learns_the_same(self):
        missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
        if missing:
            self.skipTest(f"install {' '.join(missing)}")
        with tempfile.TemporaryDirectory(prefix="gradwire-kernel-tls-") as folder:
            folder = pathlib.Path(folder)
            kernel, modules = fetch_kernel(folder)
            fill(folder / "guest", modules)
            pack(folder / "guest", folder / "guest.cpio")
            self.assertTrue(run(kernel, folder / "guest.cpio"), "what the virtual machine said is above")


if __name__ == "__main__":
    unittest.main()
