# SPDX-License-Identifier: MIT
"""The memory of arrays of other packages, without a copy.

Arrays of values may be numpy arrays, torch tensors on the CPU, or anything with the buffer protocol or DLPack. Their
shape does not matter, but they must be contiguous. numpy has no bfloat16: values of that dtype may also be 16-bit
integers, as bits, and weights of 8 and 4 bits bytes.

A tensor that the library writes is treated as by an in-place operation of torch: it is refused where torch refuses
that, and its version counter goes up, so that autograd notices if it had saved the values before. The counter goes up
even if the call then fails.
"""
from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, \
    c_uint64, c_void_p, py_object
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union, cast

from ._c import DType, Message
from ._library import described, listed

DTypeLike = Union[DType, str, Any]

_NAMES: Dict[str, DType] = {
    "f32": DType.F32, "float32": DType.F32, "torch.float32": DType.F32,
    "f16": DType.F16, "float16": DType.F16, "torch.float16": DType.F16,
    "bf16": DType.BF16, "bfloat16": DType.BF16, "torch.bfloat16": DType.BF16,
}
WEIGHT_NAMES: Dict[str, DType] = {
    **_NAMES, **{dtype.name.lower(): dtype for dtype in DType},
    **dict.fromkeys(("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"), DType.F8_E4M3),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), DType.F8_E5M2),
    **dict.fromkeys(("uint8", "int8", "bool", "float8_e8m0fnu"), DType.U8),
    "float4_e2m1fn_x2": DType.F4_E2M1, "float64": DType.F64,
    **dict.fromkeys(("int32", "uint32"), DType.I32), **dict.fromkeys(("int64", "uint64"), DType.I64),
}


_BITS = ("int16", "uint16")
_HINT = '; if these are the bits of bfloat16, say so: dtype="bf16"'


def _name(dtype: DTypeLike) -> str:
    if isinstance(dtype, DType):
        return dtype.name.lower()
    return dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)


def dtype_of(dtype: DTypeLike) -> DType:
    """A DType of gradients from "f32", "bf16", numpy.float16, torch.bfloat16 and the like. TypeError: the library does
    not have it."""
    if isinstance(dtype, DType) and dtype <= DType.BF16:
        return dtype
    name = _name(dtype)
    try:
        return _NAMES[name]
    except KeyError:
        hint = _HINT if name.rpartition(".")[2] in _BITS else ""
        raise TypeError(f"values are float32, float16 or bfloat16, not {name}{hint}") from None


def weight_dtype_of(dtype: DTypeLike) -> DType:
    """A DType of weights from "f8_e4m3", numpy.int8, torch.float8_e5m2 and the like."""
    if isinstance(dtype, DType):
        return dtype
    name = _name(dtype)
    try:
        return WEIGHT_NAMES[name.replace("torch.", "")]
    except KeyError:
        known = ", ".join(each.name.lower() for each in DType)
        hint = _HINT if name.rpartition(".")[2] in _BITS else ""
        raise TypeError(f"weights are one of {known}, not {name}{hint}") from None


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
_SIMPLE = 0


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
_LONG = ctypes.sizeof(ctypes.c_long)
_BUFFER_KINDS = {"f": "f4", "e": "f2", "H": "u2", "h": "i2", "B": "u1", "b": "i1", "c": "u1", "?": "b1", "i": "i4",
                 "I": "u4", "l": f"i{_LONG}", "L": f"u{_LONG}", "q": "i8", "Q": "u8", "d": "f8"}
_KIND_NAMES = {"f4": "float32", "f2": "float16", "bf2": "bfloat16", "u2": "uint16", "i2": "int16", "u1": "uint8",
               "i1": "int8", "b1": "bool", "i4": "int32", "u4": "uint32", "i8": "int64", "u8": "uint64",
               "f8": "float64",
               "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "x2": "float4_e2m1fn_x2",
               "g": "float128", "O": "objects", "Zf": "complex64", "Zd": "complex128"}
_TORCH_KINDS = {**{f"torch.{name}": kind for kind, name in _KIND_NAMES.items()}, "torch.float8_e4m3fnuz": "e4m3",
                "torch.float8_e5m2fnuz": "e5m2", "torch.float8_e8m0fnu": "u1"}
_DTYPE_KINDS = {DType.F32: ("f4",), DType.F16: ("f2",), DType.BF16: ("bf2", "u2", "i2"),
                DType.F8_E4M3: ("e4m3", "u1", "i1"), DType.F8_E5M2: ("e5m2", "u1", "i1"),
                DType.U8: ("u1", "i1", "b1", "e4m3", "e5m2"), DType.U4: ("u1", "i1"),
                DType.F4_E2M1: ("x2", "u1", "i1"), DType.I32: ("i4", "u4"),
                DType.I64: ("i8", "u8"), DType.F64: ("f8",)}
_KIND_DTYPES = {"f4": DType.F32, "f2": DType.F16, "bf2": DType.BF16}
_WEIGHT_KIND_DTYPES = {**_KIND_DTYPES, "e4m3": DType.F8_E4M3, "e5m2": DType.F8_E5M2, "u1": DType.U8, "i1": DType.U8,
                       "b1": DType.U8, "x2": DType.F4_E2M1, "i4": DType.I32, "u4": DType.I32, "i8": DType.I64,
                       "u8": DType.I64, "f8": DType.F64}
_ML_KINDS = {name: {DType.BF16: "bf2", DType.F8_E4M3: "e4m3", DType.F8_E5M2: "e5m2"}.get(dtype, "u1")
             for name, dtype in WEIGHT_NAMES.items() if name.startswith(("bfloat16", "float8"))}


_ADVICE = ("Give a tensor that has values; in place of one that stands for others, such as DTensor, give these, as "
           "to_local() has them")


def _room(tensor: Any) -> int:
    """Bytes of the storage of a torch tensor."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()  # PyTorch 1
    return int(storage.nbytes())


def check_memory(tensor: Any, what: str) -> None:
    """Raises an exception if a torch tensor has no values of its own in memory, or if its shape reaches beyond them."""
    kind = type(tensor).__name__
    if kind.startswith("Uninitialized"):
        raise ValueError(f"{what} is an {kind}, without a shape yet: run the module once before")
    if tensor.layout is not sys.modules["torch"].strided:
        raise TypeError(f"{what} has the layout {tensor.layout}; a dense tensor is needed, as to_dense() makes it")
    if tensor.is_quantized:
        raise TypeError(f"{what} is quantized ({tensor.dtype}); a tensor of floats is needed, as dequantize() makes it")
    if tensor.is_nested:
        raise TypeError(f"{what} is a nested tensor; give the tensors in it, as unbind() has them")
    try:
        values = tensor.numel()
        if values and not tensor.is_contiguous():
            values = 1 + sum((length - 1) * stride for length, stride in zip(tensor.size(), tensor.stride()))
        reach = values and tensor.element_size() * (tensor.storage_offset() + values)
        room = _room(tensor) if reach and tensor.data_ptr() else 0
    except Exception as error:  # whatever a tensor raises that stands for others
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{what} is a {kind} whose memory cannot be reached: {reason}. {_ADVICE}") from error
    if room < reach:
        raise ValueError(f"{what} is a {kind} of {tensor.numel()} values without memory for them: {reach} bytes are "
                         f"needed, its storage has {room}. {_ADVICE}")


def check_writable(tensor: Any, what: str) -> None:
    """Raises an exception where torch refuses an in-place operation."""
    torch = sys.modules["torch"]
    if tensor.requires_grad and torch.is_grad_enabled():
        reason = ("is a leaf Variable that requires grad and is being used in an in-place operation" if tensor.is_leaf
                  else "requires grad, and there is no derivative of what is written")
        raise RuntimeError(f"{what} {reason}: make this call under torch.no_grad(), or give {what}.detach()")
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(f"{what} is an inference tensor, which is written only under torch.inference_mode(); give a "
                           "clone()")
    if any(stride == 0 and length > 1 for length, stride in zip(tensor.shape, tensor.stride())):
        raise RuntimeError(f"{what} is expanded: several of its values are the same memory; give a clone()")


def is_written(tensor: Any, what: str) -> None:
    """What torch does before and after an in-place operation."""
    torch = sys.modules["torch"]
    check_writable(tensor, what)
    if tensor.is_inference() or not tensor.numel():
        return  # it has no version, or nothing is written
    if hasattr(torch.autograd.graph, "increment_version"):
        torch.autograd.graph.increment_version(tensor)
    else:
        tensor.detach().view(-1)[:0].zero_()  # shares the counter


_NOTHING = c_uint64()


class View:
    """The memory of an array: `address`, `size` in bytes, `kind` of its values, `what` it is called. It keeps the
    memory alive. An empty array has an address, too: NULL may mean another thing to the library."""

    __slots__ = ("address", "size", "kind", "what", "_tensor", "_keep")

    def __init__(self, array: Any, writable: bool, what: str) -> None:
        self._tensor: Any = None
        self.what = what
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(array, getattr(torch, "Tensor", ())):
            self._of_torch(array, writable)
        elif not hasattr(array, "__array_interface__") and hasattr(array, "__dlpack__"):
            self._of_dlpack(array)
        elif getattr(getattr(array, "dtype", None), "name", None) in _ML_KINDS and hasattr(array, "view"):
            self._of_buffer(array.view(f"uint{8 * array.dtype.itemsize}"), writable)  # with a dtype of ml_dtypes
            self.kind = _ML_KINDS[array.dtype.name]
        else:
            self._of_buffer(array, writable)
        if not self.size:
            self.address = ctypes.addressof(_NOTHING)

    def _of_torch(self, tensor: Any, writable: bool) -> None:
        what = self.what
        if tensor.device.type != "cpu":
            raise TypeError(f"{what} is on {tensor.device}; only tensors on the CPU can be used without a copy")
        check_memory(tensor, what)
        if not tensor.is_contiguous() or tensor.is_neg():
            raise ValueError(f"{what} is not contiguous; give {what}.contiguous()" if not tensor.is_neg() else
                             f"{what} is a view with another sign than its memory; give {what}.resolve_neg()")
        self.kind = _TORCH_KINDS.get(str(tensor.dtype), str(tensor.dtype))
        self.size = tensor.numel() * tensor.element_size()
        self.address = tensor.data_ptr()
        self._tensor = tensor
        if writable:
            is_written(tensor, what)

    def _of_buffer(self, array: Any, writable: bool) -> None:
        memory = self._memory(array)
        if writable and memory.readonly:
            raise ValueError(f"{self.what} is read-only, and would be written")
        if not memory.c_contiguous:
            raise ValueError(f"{self.what} is not contiguous; give a contiguous copy")
        buffer = _Buffer()
        try:
            _GET_BUFFER(memory, buffer, _SIMPLE)
            self.address = buffer.buf
        finally:
            _RELEASE_BUFFER(buffer)
        self._keep = memory  # which holds the buffer. It needs no __del__, in which a signal's exception would be lost
        form = memory.format
        self.kind = form if form.startswith(_FOREIGN) else _BUFFER_KINDS.get(form.lstrip("@=<>!"), form)
        self.size = memory.nbytes

    def _memory(self, array: Any) -> memoryview:
        try:
            return memoryview(array)
        except (TypeError, ValueError, BufferError) as error:
            if hasattr(array, "__array_interface__") or isinstance(error, BufferError):
                raise type(error)(f"{self.what} cannot be used where it lies: {error}") from None
        raise TypeError(f"{self.what} should be an array (of numpy, a torch tensor on the CPU, or with the buffer "
                        f"protocol or DLPack), not {described(array)}")

    def _of_dlpack(self, array: Any) -> None:
        what = self.what
        if array.__dlpack_device__()[0] != _DL_CPU:
            raise TypeError(f"{what} is not on the CPU")
        capsule = array.__dlpack__()
        tensor = ctypes.cast(_GET_POINTER(capsule, b"dltensor"), POINTER(_DLTensor))[0]
        count = 1
        for axis in reversed(range(tensor.ndim)):
            if tensor.shape[axis] < 0:
                raise ValueError(f"{what} has a negative length, {tensor.shape[axis]}")
            if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
                raise ValueError(f"{what} is not contiguous; give a contiguous copy")
            count *= tensor.shape[axis]
        if count and not tensor.data:
            raise ValueError(f"{what} has no memory for its {count} values")
        bytes_each = tensor.bits * tensor.lanes // 8
        self.kind = f"vectors of {tensor.lanes}" if tensor.lanes != 1 else \
            f"{_DL_KINDS.get(tensor.code, '?')}{bytes_each}"
        self.size = count * bytes_each
        self.address = tensor.data + tensor.byte_offset if count else None
        self._keep = capsule  # frees the tensor with itself, as nobody consumed it

    def use_again(self, writable: bool) -> None:
        """Before each call that uses memory of a call before, such as a residual: it may have been taken away, as the
        storage of a tensor can be."""
        tensor = self._tensor
        if tensor is None:
            return
        check_memory(tensor, self.what)
        size = tensor.numel() * tensor.element_size()
        if size != self.size or size and tensor.data_ptr() != self.address:
            raise ValueError(f"{self.what} has other memory than when it was given (by resize_, set_ or .data): its "
                             "owner is needed anew")
        if writable:
            is_written(tensor, self.what)


def _typed(view: View, kind: Optional[DType], needed: str) -> Tuple[View, int, DType]:
    """The memory, the number of its values, and their dtype, which is `kind`. needed: what is said if that is None."""
    if kind is None or view.kind not in _DTYPE_KINDS[kind]:
        name = _KIND_NAMES.get(view.kind, view.kind)
        wanted = needed if kind is None else _KIND_NAMES[_DTYPE_KINDS[kind][0]]
        raise TypeError(f"{view.what} should have values of {wanted}, not {name}{_HINT if name in _BITS else ''}")
    return view, 8 * view.size // kind.bits, kind


def taken(array: Any, dtype: Optional[DTypeLike], what: str, writable: bool = False) -> Tuple[View, int, DType]:
    """The memory of values, their number and dtype, which the array tells if it is not given. TypeError: the array has
    other values."""
    view = View(array, writable, what)
    if dtype is None:
        return _typed(view, _KIND_DTYPES.get(view.kind), "float32, float16 or bfloat16")
    return _typed(view, dtype_of(dtype), "")


def weights(array: Any, dtype: Optional[DTypeLike], what: str, writable: bool = False) -> Tuple[View, int, DType]:
    """The same of weights, which may have any dtype that deltas know."""
    view = View(array, writable, what)
    if dtype is None:
        return _typed(view, _WEIGHT_KIND_DTYPES.get(view.kind), "a dtype of threelc.DType")
    return _typed(view, weight_dtype_of(dtype), "")


def values(array: Any, n: int, dtype: DType, what: str, writable: bool = False) -> View:
    """The memory of n values of a dtype. TypeError: other values, ValueError: another number of them."""
    view, found, _ = taken(array, dtype, what, writable)
    if found != n:
        raise ValueError(f"{what} should have {n} values, not {found}")
    return view


def check_apart(views: Sequence[Optional[View]]) -> None:
    """Raises ValueError if two arrays that are written have memory in common."""
    spans = sorted((view.address, view.address + view.size, view.what) for view in views if view and view.size)
    for (_, end, one), (start, _, other) in zip(spans, spans[1:]):
        if start < end:
            raise ValueError(f"{one} and {other} have memory in common, and each gets values of its own")


def octets(array: Any, what: str, writable: bool = False) -> View:
    """The memory of bytes, for example a frame."""
    view = View(array, writable, what)
    if view.kind not in ("u1", "i1"):
        raise TypeError(f"{what} should be bytes, not {_KIND_NAMES.get(view.kind, view.kind)}")
    return view


class Messages:
    """An array of tlc_message for the C library, of bytes that it keeps alive. None is an empty message."""

    def __init__(self, messages: Sequence[Any], what: str, needed: Optional[int] = None) -> None:
        """needed: how many; None: any number."""
        self.views: List[Optional[View]] = [None if message is None else octets(message, f"{what}[{i}]")
                                            for i, message in enumerate(listed(messages, needed, what, "messages"))]
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
        self.views = [None if array is None else values(array, n, dtype, f"{what}[{i}]", writable)
                      for i, (array, n) in enumerate(zip(listed(arrays, len(sizes), what, "arrays"), sizes))]
        if writable:
            check_apart(self.views)
        self.array = (c_void_p * len(sizes))(*[None if view is None else view.address for view in self.views])


def borrowed(address: Optional[int], size: int, owner: Any, form: str = "B", writable: bool = False) -> memoryview:
    """A view of memory that belongs to `owner` and lives as long as it; the view keeps the owner alive."""
    if not address or not size:
        return memoryview(b"").cast("B")
    memory = (ctypes.c_uint8 * size).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]
    view: Any = memoryview(memory).cast("B")  # for some versions of mypy the form belongs to the type
    if form != "B":
        view = view.cast(form)
    return cast(memoryview, view if writable else view.toreadonly())
