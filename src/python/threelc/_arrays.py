# SPDX-License-Identifier: MIT
"""The memory of arrays of other packages, without a copy.

Arrays of values may be numpy arrays, torch tensors on the CPU, or anything with the buffer protocol or DLPack. Their
shape does not matter, but they must be contiguous. numpy has no bfloat16: values of that dtype may also be 16-bit
integers, as bits.
"""
from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, \
    c_uint64, c_void_p, py_object
from typing import Any, Dict, List, Optional, Sequence, Union

from ._c import DType, Message

DTypeLike = Union[DType, str, Any]

_NAMES: Dict[str, DType] = {
    "f32": DType.F32, "float32": DType.F32, "torch.float32": DType.F32,
    "f16": DType.F16, "float16": DType.F16, "torch.float16": DType.F16,
    "bf16": DType.BF16, "bfloat16": DType.BF16, "torch.bfloat16": DType.BF16,
}


def dtype_of(dtype: DTypeLike) -> DType:
    """A DType from "f32", "bf16", numpy.float16, torch.bfloat16 and the like. TypeError: the library has no such."""
    if isinstance(dtype, DType):
        return dtype
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    try:
        return _NAMES[name]
    except KeyError:
        raise TypeError(f"values are float32, float16 or bfloat16, not {name}") from None


class _Buffer(Structure):  # Py_buffer
    _fields_ = [
        ("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
        ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p), ("suboffsets", c_void_p),
        ("internal", c_void_p)]


_GET_BUFFER = ctypes.pythonapi.PyObject_GetBuffer
_GET_BUFFER.argtypes = [py_object, POINTER(_Buffer), c_int]
_RELEASE_BUFFER = ctypes.pythonapi.PyBuffer_Release
_RELEASE_BUFFER.argtypes = [POINTER(_Buffer)]
_RELEASE_BUFFER.restype = None
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38


class _DLTensor(Structure):  # the head of a DLManagedTensor
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64)]


_GET_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_GET_POINTER.argtypes = [py_object, c_char_p]
_GET_POINTER.restype = c_void_p
_DL_CPU = 1
_DL_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf"}

_FOREIGN = (">", "!") if sys.byteorder == "little" else ("<",)  # byte orders that are not this machine's
_BUFFER_KINDS = {"f": "f4", "e": "f2", "H": "u2", "h": "i2", "B": "u1", "b": "i1", "c": "u1"}
_TORCH_KINDS = {"torch.float32": "f4", "torch.float16": "f2", "torch.bfloat16": "bf2", "torch.int16": "i2",
                "torch.uint8": "u1", "torch.int8": "i1"}
_DTYPE_KINDS = {DType.F32: ("f4",), DType.F16: ("f2",), DType.BF16: ("bf2", "u2", "i2")}


class View:
    """The memory of an array: `address`, `size` in bytes, `kind` of its values. It keeps the memory alive."""

    __slots__ = ("address", "size", "kind", "_buffer", "_keep")

    def __init__(self, array: Any, writable: bool, what: str) -> None:
        self._buffer: Optional[_Buffer] = None
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(array, getattr(torch, "Tensor", ())):
            self._of_torch(array, what)
        elif getattr(getattr(array, "dtype", None), "name", None) == "bfloat16" and hasattr(array, "view"):
            self._of_buffer(array.view("uint16"), writable)  # a numpy array with the dtype of ml_dtypes
        elif hasattr(array, "__dlpack__") and not hasattr(array, "__array_interface__"):
            self._of_dlpack(array, what)
        else:
            self._of_buffer(array, writable)

    def _of_torch(self, tensor: Any, what: str) -> None:
        if tensor.device.type != "cpu":
            raise TypeError(f"{what} is on {tensor.device}; only tensors on the CPU can be used without a copy")
        if str(tensor.layout) != "torch.strided" or not tensor.is_contiguous() or tensor.is_neg():
            raise ValueError(f"{what} is not contiguous")
        self.kind = _TORCH_KINDS.get(str(tensor.dtype), str(tensor.dtype))
        self.size = tensor.numel() * tensor.element_size()
        self.address = tensor.data_ptr()
        self._keep = tensor

    def _of_buffer(self, array: Any, writable: bool) -> None:
        buffer = _Buffer()
        _GET_BUFFER(array, buffer, _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
        self._buffer = buffer
        form = (buffer.format or b"B").decode()
        self.kind = form if form.startswith(_FOREIGN) else _BUFFER_KINDS.get(form.lstrip("@=<>!"), form)
        self.size = buffer.len
        self.address = buffer.buf or 0

    def _of_dlpack(self, array: Any, what: str) -> None:
        if array.__dlpack_device__()[0] != _DL_CPU:
            raise TypeError(f"{what} is not on the CPU")
        capsule = array.__dlpack__()
        tensor = ctypes.cast(_GET_POINTER(capsule, b"dltensor"), POINTER(_DLTensor))[0]
        count = 1
        for axis in reversed(range(tensor.ndim)):
            if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
                raise ValueError(f"{what} is not contiguous")
            count *= tensor.shape[axis]
        bytes_each = tensor.bits * tensor.lanes // 8
        self.kind = f"{_DL_KINDS.get(tensor.code, '?')}{bytes_each}"
        self.size = count * bytes_each
        self.address = (tensor.data or 0) + tensor.byte_offset
        self._keep = capsule  # frees the tensor with itself, as nobody consumed it

    def __del__(self) -> None:
        if getattr(self, "_buffer", None) is not None:
            _RELEASE_BUFFER(self._buffer)
            self._buffer = None


def values(array: Any, n: int, dtype: DType, what: str, writable: bool = False) -> View:
    """The memory of n values of a dtype. TypeError: other values, ValueError: another number of them."""
    view = View(array, writable, what)
    if view.kind not in _DTYPE_KINDS[dtype]:
        raise TypeError(f"{what} should have values of {dtype.name.lower()}, not {view.kind}")
    if view.size != n * dtype.itemsize:
        raise ValueError(f"{what} should have {n} values, not {view.size // dtype.itemsize}")
    return view


def octets(array: Any, what: str, writable: bool = False) -> View:
    """The memory of bytes, for example a frame."""
    view = View(array, writable, what)
    if view.kind not in ("u1", "i1"):
        raise TypeError(f"{what} should be bytes, not {view.kind}")
    return view


def count_of(array: Any, dtype: DType, what: str, writable: bool = False) -> "tuple[View, int]":
    """The memory of values whose number the array tells."""
    view = View(array, writable, what)
    if view.kind not in _DTYPE_KINDS[dtype]:
        raise TypeError(f"{what} should have values of {dtype.name.lower()}, not {view.kind}")
    return view, view.size // dtype.itemsize


class Messages:
    """An array of tlc_message for the C library, of bytes that it keeps alive. None is an empty message."""

    def __init__(self, messages: Sequence[Any], what: str) -> None:
        self.views: List[Optional[View]] = [None if message is None else octets(message, what) for message in messages]
        self.array = (Message * len(self.views))()
        for entry, view in zip(self.array, self.views):
            if view is not None:
                entry.data, entry.len = view.address, view.size

    def __len__(self) -> int:
        return len(self.views)


class Lists:
    """An array of pointers for the C library, to arrays that it keeps alive. None is NULL."""

    def __init__(self, arrays: Sequence[Any], sizes: Sequence[int], dtype: DType, what: str,
                 writable: bool = False) -> None:
        if len(arrays) != len(sizes):
            raise ValueError(f"{what} should have {len(sizes)} arrays, not {len(arrays)}")
        self.views = [None if array is None else values(array, n, dtype, f"{what}[{i}]", writable)
                      for i, (array, n) in enumerate(zip(arrays, sizes))]
        self.array = (c_void_p * len(sizes))(*[None if view is None else view.address for view in self.views])


def borrowed(address: Optional[int], size: int, owner: Any, form: str = "B", writable: bool = False) -> memoryview:
    """A view of memory that belongs to `owner` and lives as long as it; the view keeps the owner alive."""
    if not address or not size:
        return memoryview(b"").cast("B")
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]
    view = memoryview(memory).cast("B")
    if form != "B":
        view = view.cast(form)
    return view if writable else view.toreadonly()
