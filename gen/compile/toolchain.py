"""Where the compilers and headers are, and their versions: from the installed packages, never from PATH."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gen.compile.result import CompileError

PACKAGES = (
    "tilelang",
    "apache-tvm-ffi",
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cuda-nvcc",
    "nvidia-nvvm",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-cuda-runtime",
)

# Each of these prefixes names settings that change what the compilers emit, unseen by the cache key.
_SETTINGS = ("TILELANG_", "TL_", "TVM_", "NVCC_", "CUDA_", "CUTE_DSL_")


@dataclass(frozen=True)
class Toolchain:
    """Paths of one installation: the CUDA root, the header folders, and the C++ compiler that nvcc calls."""

    cuda_home: Path
    includes: tuple[Path, ...]
    host_compiler: Path

    @property
    def nvcc(self) -> Path:
        """The CUDA C++ compiler."""
        return self.cuda_home / "bin" / "nvcc"

    @property
    def ptxas(self) -> Path:
        """The PTX assembler."""
        return self.cuda_home / "bin" / "ptxas"

    @property
    def nvdisasm(self) -> Path:
        """The disassembler of cubins."""
        return self.cuda_home / "bin" / "nvdisasm"

    def environment(self, scratch: Path, arch: str = "sm_120a") -> dict[str, str]:
        """The environment of a child process: `CUDA_HOME` set, temporary files and caches in `scratch`.

        CuTe DSL compiles for `arch` and keeps its PTX.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_SETTINGS)}
        return kept | {
            "PATH": os.environ.get("PATH") or os.defpath,
            "CUDA_HOME": str(self.cuda_home),
            "TMPDIR": str(scratch),
            "TILELANG_CACHE_DIR": str(scratch / "tilelang"),
            "CUTE_DSL_ARCH": arch,
            "CUTE_DSL_KEEP_PTX": "1",
            "CUTE_DSL_DUMP_DIR": str(scratch),
            "CUTE_DSL_DISABLE_FILE_CACHING": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }


def toolchain() -> dict[str, str]:
    """Versions of every package that decides what is emitted, by package name.

    Raises CompileError where one is not installed.
    """
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES}
    except importlib.metadata.PackageNotFoundError as error:
        raise CompileError(
            f"The package {error.name} is not installed; reinstall this project with its dependencies."
        ) from error


def find_toolchain() -> Toolchain:
    """Locate the CUDA compiler package, TileLang's headers and a C++ compiler, or raise CompileError."""
    cuda = _package_folder("nvidia.cu13", "nvidia-cuda-nvcc")
    tilelang = _package_folder("tilelang", "tilelang")
    names = [os.environ.get("CXX", ""), "g++", "c++", "clang++"]
    search = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.defpath)))
    host = next((found for name in names if name and (found := shutil.which(name, path=search))), None)
    if host is None:
        raise CompileError(
            "No C++ compiler was found as $CXX, g++, c++ or clang++; nvcc needs one to preprocess CUDA "
            "sources. Install the system's g++ package or set CXX."
        )
    tools = Toolchain(cuda, (tilelang / "src", tilelang / "3rdparty" / "cutlass" / "include"), Path(host))
    for path in (tools.nvcc, tools.ptxas, tools.nvdisasm, *tools.includes):
        if not path.exists():
            raise CompileError(f"{path} does not exist; reinstall this project with its dependencies.")
    return tools


def host_compiler_version(compiler: Path) -> str:
    """The version line of a C++ compiler: it preprocesses, so it is a part of the cache key."""
    try:
        run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompileError(
            f"The C++ compiler {compiler} does not run: {error}. Set CXX to one that does."
        ) from error
    return run.stdout.partition("\n")[0]


def _package_folder(module: str, distribution: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise CompileError(
            f"The package {distribution} is not installed; reinstall this project with its dependencies."
        )
    return Path(next(iter(spec.submodule_search_locations)))
