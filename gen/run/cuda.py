"""Launching compiled cubins on a CUDA card through the driver, on torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from cuda.bindings import driver

from gen.compile.result import Kernel, ParameterType
from gen.device import Device
from gen.plan import Launch
from gen.run import Argument, RunError

_SCALARS: dict[ParameterType, Any] = {
    "pointer": ctypes.c_void_p,
    "bool": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


_LIMITS = {
    "sms": "MULTIPROCESSOR_COUNT",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_bytes_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
}


@dataclass
class Cuda:
    """Launches on the card `cuda:<index>`, on torch's current stream.

    With `wait` each launch is waited for, so that a fault has its kernel's name.
    """

    index: int = 0
    wait: bool = True
    _functions: dict[bytes, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Where arguments live."""
        return torch.device("cuda", self.index)

    def describe(self) -> Device:
        """The card's limits, for plans."""
        properties = torch.cuda.get_device_properties(self.index)
        limits = {
            name: _check(
                driver.cuDeviceGetAttribute(
                    getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}"), self.index
                ),
                f"the limit {name} of card {self.index}",
            )
            for name, attribute in _LIMITS.items()
        }
        return Device(
            name=properties.name,
            title=properties.name,
            arch=f"sm_{properties.major}{properties.minor}a",
            memory_gb_per_s=0,
            **limits,
        )

    def broken(self) -> bool:
        """Whether an earlier fault has made the process useless for this card."""
        try:
            torch.cuda.synchronize(self.index)
        except RuntimeError:
            return True
        return False

    def begin(self) -> None:
        """Nothing is remembered between operations."""

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the card, with its strides and the bytes between its elements."""
        storage = torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage()).to(self.device)
        whole = storage.view(tensor.dtype) if tensor.dtype != torch.uint8 else storage
        return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def launch(
        self,
        kernel: Kernel,
        launch: Launch,
        arguments: Mapping[str, Argument],
        written: frozenset[str],
        undefined: frozenset[str],
    ) -> None:
        """Launch once. Raises RunError where the driver refuses or, if waited for, the kernel faults."""
        with torch.cuda.device(self.index):
            function = self._function(kernel)
            values = [_packed(arguments[p.name], p.type) for p in kernel.parameters]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            stream = torch.cuda.current_stream(self.index).cuda_stream
            block = (launch.threads, 1, 1)
            _check(
                driver.cuLaunchKernel(
                    function, *launch.grid, *block, kernel.dynamic_shared_bytes, stream, pointers, 0
                ),
                f"{kernel.name}: the launch with grid {launch.grid} was refused",
            )
            if self.wait:
                _check(driver.cuStreamSynchronize(stream), f"{kernel.name}: the kernel faulted")

    def unwritten(self, array: torch.Tensor) -> int:
        """Elements whose every byte is 0xFF, as before the launch; no arithmetic gives that NaN."""
        rows = array.contiguous().view(torch.uint8).view(-1, array.element_size())
        return int((rows == 255).all(-1).sum())

    def _function(self, kernel: Kernel) -> Any:
        if kernel.cubin not in self._functions:
            torch.cuda.init()
            torch.zeros(1, device=self.device)  # makes the primary context current
            text = f"{kernel.name}: the cubin for {kernel.arch} does not load"
            module = _check(driver.cuModuleLoadData(kernel.cubin), text)
            function = _check(driver.cuModuleGetFunction(module, kernel.entry.encode()), text)
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(driver.cuFuncSetAttribute(function, attribute, kernel.dynamic_shared_bytes), text)
            self._functions[kernel.cubin] = function
        return self._functions[kernel.cubin]


def _packed(argument: Argument, kind: ParameterType) -> Any:
    """An argument as the C value that the kernel takes."""
    if isinstance(argument, torch.Tensor):
        argument = argument.data_ptr()
    return _SCALARS[kind](argument)


def _check(result: tuple[Any, ...], text: str) -> Any:
    """What a driver call returned. Raises RunError with the driver's words where it failed."""
    code, *values = result
    if code != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorString(code)
        raise RunError(f"{text}: {name.decode() if name else code}")
    return values[0] if values else None
