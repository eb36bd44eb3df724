"""Records what a card gives: `python -m tests.conformance.record CUBINS OUT [GROUP…]`.

Needs NumPy and cuda-bindings, and the cubins of `tests.conformance.build`. Writes GROUP.npz, with one array a
case, and GROUP.json: card, driver, date, and the hash of everything that determines each output.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

from tests.conformance.case import Array, Case, Map
from tests.conformance.cases import GROUPS

_TYPES = {
    **{"u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64"},
    **{"f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16"},
}
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def _check(result: tuple[Any, ...], what: str) -> Any:
    """The value of a driver call. Raises RuntimeError where it failed."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{what}: {result[0].name}")
    return result[1] if len(result) == 2 else result[1:]


def _place(array: Array) -> Any:
    pointer = _check(driver.cuMemAlloc(max(array.nbytes, 16)), "cuMemAlloc")
    _check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes), "cuMemcpyHtoD")
    return pointer


def _encode(m: Map, pointer: int) -> Any:
    """The driver's tensor map."""
    size = _SIZES["".join(c for c in m.kind if c.isdigit())]
    sizes = m.shape[::-1]
    pitches = [size * int(np.prod(sizes[:i])) for i in range(1, len(sizes))]
    u64, u32 = driver.cuuint64_t, driver.cuuint32_t
    name = "CU_TENSOR_MAP_"
    fill = "NAN_REQUEST_ZERO_FMA" if m.fill == "nan" else "NONE"
    swizzle = m.swizzle.upper() if m.swizzle == "none" else m.swizzle
    return _check(
        driver.cuTensorMapEncodeTiled(
            getattr(driver.CUtensorMapDataType, f"{name}DATA_TYPE_{_TYPES[m.kind]}"),
            len(sizes),
            pointer,
            [u64(n) for n in sizes],
            [u64(n) for n in pitches or [16]],  # not read for rank 1
            [u32(n) for n in m.box],
            [u32(n) for n in m.element_strides or (1,) * len(sizes)],
            getattr(driver.CUtensorMapInterleave, f"{name}INTERLEAVE_NONE"),
            getattr(driver.CUtensorMapSwizzle, f"{name}SWIZZLE_{'NONE' if m.swizzle == 'none' else swizzle}"),
            getattr(driver.CUtensorMapL2promotion, f"{name}L2_PROMOTION_NONE"),
            getattr(driver.CUtensorMapFloatOOBfill, f"{name}FLOAT_OOB_FILL_{fill}"),
        ),
        "cuTensorMapEncodeTiled",
    )


def _launch(function: Any, case: Case) -> Array:
    """The output of one case. Raises RuntimeError where the card refuses or faults."""
    arrays, out = case.arrays(), case.start()
    pointers = [_place(a) for a in (*arrays, out)]
    values: list[Any] = [ctypes.c_uint64(int(p)) for p in pointers]
    for m in case.maps:
        encoded = _encode(m, int(pointers[m.of]))
        image = (ctypes.c_uint8 * 256)()
        start = -ctypes.addressof(image) % 64
        ctypes.memmove(ctypes.addressof(image) + start, encoded.getPtr(), 128)
        values.append((ctypes.c_uint8 * 128).from_buffer(image, start))
    packed = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    launched = driver.cuLaunchKernel(function, case.blocks, 1, 1, case.threads, 1, 1, 0, 0, packed, 0)
    _check(launched, f"{case.name}: launch")
    _check(driver.cuCtxSynchronize(), f"{case.name}: execution")
    _check(driver.cuMemcpyDtoH(out.ctypes.data, pointers[-1], out.nbytes), "cuMemcpyDtoH")
    for pointer in pointers:
        _check(driver.cuMemFree(pointer), "cuMemFree")
    return out


def _driver_version() -> str:
    """Of the kernel module, as nvidia-smi shows it; else the CUDA version of the driver."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
        return next(word for word in text.split() if word.count(".") >= 2 and word[0].isdigit())
    except (OSError, StopIteration):
        return f"CUDA {_check(driver.cuDriverGetVersion(), 'cuDriverGetVersion')}"


def record(group: str, cubins: Path, out: Path, about: dict[str, str]) -> None:
    """Records one group."""
    module = _check(driver.cuModuleLoadData((cubins / f"{group}.cubin").read_bytes()), f"{group}: loading")
    results, hashes = {}, {}
    for case in GROUPS[group]:
        function = _check(driver.cuModuleGetFunction(module, case.entry.encode()), case.name)
        results[case.entry] = _launch(function, case)
        hashes[case.entry] = case.digest()
    np.savez_compressed(out / f"{group}.npz", **results)
    (out / f"{group}.json").write_text(json.dumps(about | {"cases": hashes}, indent=0) + "\n")
    print(group, len(results), "cases", flush=True)


def main(cubins: Path, out: Path, groups: list[str]) -> None:
    """Records the named groups, or all."""
    out.mkdir(parents=True, exist_ok=True)
    _check(driver.cuInit(0), "cuInit")
    device = _check(driver.cuDeviceGet(0), "cuDeviceGet")
    context = _check(driver.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")
    _check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    name = _check(driver.cuDeviceGetName(128, device), "cuDeviceGetName")
    about = {
        "card": name.split(b"\0")[0].decode(),
        "driver": _driver_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }
    for group in groups or list(GROUPS):
        record(group, cubins, out, about)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
