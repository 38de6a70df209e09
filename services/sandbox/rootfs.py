"""The read-only root file system that sandboxed code sees: an interpreter, its library, numpy if it is there.

It is baked once from the running interpreter into the user's cache folder, under a name made of everything that it
is made of, and then never changed: a sandbox that starts needs no mounts from the host and sees nothing of it.
Baking is atomic (a folder is renamed into place), so that several services may do it at once.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import spade_rl
from spade_rl.errors import ConfigurationError
from spade_rl.sandbox import guest

FORMAT = 7
LDD_SECONDS = 60.0
# A root that no service has used for so long is removed.
UNUSED_SECONDS = 14 * 24 * 3600.0
PYTHON_HOME = "/opt/python"
PYTHON = f"{PYTHON_HOME}/bin/python"
LIBRARIES = "/opt/lib"
GUEST = "/spade/guest/main.py"
SOCKET_FOLDER = "/run/spade"
# Mount points must exist: the runtime would otherwise create them on the host.
_FOLDERS = ("proc", "sys", "dev", "tmp", "etc", "run/spade", "lib64", "lib", "spade/guest", "opt/lib", "opt/python/bin")
# Not needed to run an environment, and large.
_NEEDLESS = "site-packages dist-packages test tests idlelib tkinter turtledemo ensurepip lib2to3 venv pydoc_data"
_LEFT_OUT = frozenset(_NEEDLESS.split())
_WARM_PACKAGES = ("", "json", "re", "collections", "encodings", "importlib", "concurrent", "ctypes")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Where the parts of the running interpreter lie on the host."""

    executable: Path
    library: Path
    extensions: Path
    numpy: Path | None

    @property
    def version(self) -> str:
        """As in the name of the library folder: python3.11."""
        return f"python{sys.version_info.major}.{sys.version_info.minor}"


def running_interpreter() -> Interpreter:
    """Return the interpreter that runs this service, seen through its virtual environment."""
    executable = Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve()
    found = importlib.util.find_spec("numpy")
    numpy = Path(found.origin).parent if found is not None and found.origin else None
    return Interpreter(
        executable=executable,
        library=Path(sysconfig.get_path("stdlib")),
        extensions=Path(sysconfig.get_config_var("DESTSHARED")),
        numpy=numpy,
    )


def cache_folder() -> Path:
    """Return this user's cache folder for Spade."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spade"


def guest_files() -> list[Path]:
    """Return the files of the zygote."""
    return sorted(Path(guest.__file__).parent.glob("*.py"))


def own_modules() -> dict[str, Path]:
    """Return what generated code may import of this package: the files by their place in the package's folder."""
    package = Path(spade_rl.__file__).parent
    files = [package / "__init__.py", *sorted((package / "environment").glob("*.py"))]
    return {str(file.relative_to(package)): file for file in files}


def fingerprint(interpreter: Interpreter) -> str:
    """Return a name for the root that would be baked now."""
    digest = hashlib.sha256(f"{FORMAT}\n{sys.version}\n".encode())
    for file in (*guest_files(), *own_modules().values()):
        digest.update(file.read_bytes())
    for path in (interpreter.executable, interpreter.library, interpreter.extensions, interpreter.numpy):
        status = path.stat() if path is not None else None
        digest.update(f"{path} {status and (int(status.st_mtime), status.st_size)}\n".encode())
    return digest.hexdigest()[:16]


def ensure_rootfs(interpreter: Interpreter | None = None, *, folder: Path | None = None, shared: bool = False) -> Path:
    """Return the root file system of an interpreter (the running one), baking it if it is not there yet.

    ``shared``: other users than this one start zygotes from it, as in an image; the zygote's own files are then not
    hidden from workers, to whom they are of no use.
    Raises ConfigurationError if it cannot be made.
    """
    interpreter = interpreter or running_interpreter()
    folder = folder or cache_folder()
    target = folder / f"rootfs-{fingerprint(interpreter)}"
    try:
        if not target.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix="baking-", dir=folder))
            try:
                _bake(interpreter, work)
                work.chmod(0o755)
                (work / "spade").chmod(0o755 if shared else 0o700)
                _rename(work, target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        if os.access(folder, os.W_OK):  # An image's is not this user's to change.
            os.utime(target)
            _remove_unused(folder, target)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"cannot make the sandbox's root file system in {folder}: {error}. "
            "Free some space there (about 250 MB), or point XDG_CACHE_HOME at a folder that can be written."
        ) from error
    return target


def _rename(work: Path, target: Path) -> None:
    try:
        work.rename(target)
    except OSError:
        if not target.is_dir():  # Another service was faster: its root is as good.
            raise


def _remove_unused(folder: Path, used: Path) -> None:
    for other in folder.glob("rootfs-*"):
        if other != used and time.time() - other.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    for other in folder.glob("baking-*"):
        if time.time() - other.stat().st_mtime > 3600:
            shutil.rmtree(other, ignore_errors=True)


def _bake(interpreter: Interpreter, root: Path) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    library = root / PYTHON_HOME[1:] / "lib" / interpreter.version
    extensions = root / PYTHON_HOME[1:] / sys.platlibdir / interpreter.version / "lib-dynload"
    _place(interpreter.executable, root / PYTHON[1:])
    _place_tree(interpreter.library, library)
    _place_tree(interpreter.extensions, extensions)
    binaries = [interpreter.executable, *sorted(interpreter.extensions.glob("*.so"))]
    packages = library / "site-packages"
    packages.mkdir()
    if interpreter.numpy is not None:
        _place_tree(interpreter.numpy, packages / "numpy")
        bundled = interpreter.numpy.with_name("numpy.libs")
        if bundled.is_dir():
            _place_tree(bundled, packages / "numpy.libs")
        binaries += sorted(interpreter.numpy.rglob("*.so"))
    # Copied, not linked: a root never changes, and whoever develops this package edits its files in place.
    for name, file in own_modules().items():
        (packages / "spade_rl" / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(file, packages / "spade_rl" / name)
    compileall.compile_dir(packages / "spade_rl", quiet=2)
    for shared in _shared_libraries(binaries):
        inside_packages = interpreter.numpy is not None and interpreter.numpy.parent in shared.parents
        if shared.name.startswith("ld-"):
            _place(shared.resolve(), root / shared.parent.relative_to("/") / shared.name)
        elif not inside_packages:
            _place(shared.resolve(), root / LIBRARIES[1:] / shared.name)
    (root / "dev/null").touch()  # A mount point too.
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/tmp:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    for file in guest_files():
        shutil.copyfile(file, (root / GUEST[1:]).with_name(file.name))
    for package in _WARM_PACKAGES:
        compileall.compile_dir(library / package, maxlevels=0, quiet=2)
    compileall.compile_dir(root / "spade/guest", quiet=2)
    for path in root.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def _place(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it where that is impossible or would leave it unreadable to workers."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    mode = source.stat().st_mode
    if mode & stat.S_IROTH:
        try:
            os.link(source, target)
        except OSError:
            pass
        else:
            return
    shutil.copy2(source, target)
    target.chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def _place_tree(source: Path, target: Path) -> None:
    def left_out(_folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in _LEFT_OUT or name.startswith("config-") or name.endswith(".a")]

    def place(original: str, copy: str) -> None:
        _place(Path(original).resolve(), Path(copy))

    shutil.copytree(
        source, target, ignore=left_out, copy_function=place, dirs_exist_ok=True, ignore_dangling_symlinks=True
    )


def _shared_libraries(binaries: list[Path]) -> list[Path]:
    """Return the shared libraries, the loader among them, that binaries need, as the loader finds them."""
    tool = shutil.which("ldd")
    if tool is None:
        raise OSError("`ldd` is not installed (it comes with the C library)")
    done = subprocess.run([tool, *map(str, binaries)], capture_output=True, text=True, timeout=LDD_SECONDS, check=False)
    found = set()
    for line in done.stdout.splitlines():
        words = line.split()
        for word in words[:1] + words[2:3]:
            if word.startswith("/") and not word.endswith(":"):
                found.add(Path(word))
    return sorted(found)
