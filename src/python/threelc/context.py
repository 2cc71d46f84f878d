# SPDX-License-Identifier: MIT
"""Compression of one tensor, with error feedback."""
from __future__ import annotations

from ctypes import byref, c_size_t, sizeof
from typing import Any, Callable, Dict, Iterable, Optional, Union

from . import _c
from ._arrays import DTypeLike, borrowed, dtype_of, octets, values
from ._c import DType, Isa
from ._library import check, choice, coded, count, lib, message_of, real
from ._object import CObject, saved_state
from ._parallel import threads_of
from .codec_strings import check_codec, codec_list

STATE_VERSION = 1  # of state_dict()


def isa_of(isa: Union[str, Isa]) -> Isa:
    """An Isa from its name: "auto", "scalar", "avx2", "avx512", "neon"."""
    return choice(Isa, isa, "isa")


class Context(CObject):
    """Compresses a tensor of n values again and again. What is not sent stays in the residual, and is sent later.

    n:             values of the tensor.
    codec:         "3lc-golomb", "3lc:s=1.75", "topk:p=0.01,bits=2+golomb", ...; threelc.codecs() lists them.
    dtype:         of the gradients: "f32", "f16", "bf16", or that of numpy or torch.
    residual:      n float32 values of the caller's, used as they are, for example a tensor. None: the context has its
                   own, at first 0. The context keeps the array alive.
    feedback:      error feedback: True, False, or None for the default of the codec. For a run that starts with raw and
                   later switches to 3lc, set True.
    seed:          for stochastic codecs. Give each machine and each tensor its own, or their errors are equal.
    reserve:       codecs that set_codec must be able to switch to.
    checksum:      frames end with a checksum of 4 bytes.
    assume_finite: the caller has checked the gradients. Faster, but after a NaN the residual is undefined until reset.
    isa:           "auto", "scalar", "avx2", "avx512" or "neon". All make the same bytes.
    threads:       how many threads compress. The bytes are the same with any number.

    A call that fails changes nothing. It raises TypeError or ValueError for an array that does not fit, and else a
    threelc.Error: NonFiniteError if the gradient has a NaN or an infinity.

    >>> context = threelc.Context(gradient.size, "3lc-golomb")
    >>> frame = context.compress(gradient)
    """

    def __init__(self, n: int, codec: str = "3lc", dtype: DTypeLike = "f32", *, residual: Any = None,
                 feedback: Optional[bool] = None, seed: int = 0, reserve: Union[None, str, Iterable[str]] = None,
                 checksum: bool = False, assume_finite: bool = False, isa: Union[str, Isa] = "auto",
                 threads: Optional[int] = None) -> None:
        check_codec(codec)
        config = _c.Config()
        check(lib.tlc_config_init(byref(config), sizeof(config)))
        self.n = count(n, "n")
        self.dtype: DType = dtype_of(dtype)
        given = None if residual is None else values(residual, self.n, DType.F32, "residual", writable=True)
        self._given_residual = residual
        pool = threads_of(threads, self.n)
        config.codec = coded(codec, "codec")
        config.reserve = codec_list(reserve)
        config.dtype = self.dtype
        config.feedback = -1 if feedback is None else int(feedback)
        config.seed = count(seed, "seed", 64)
        config.isa = isa_of(isa)
        config.checksum = int(checksum)
        config.assume_finite = int(assume_finite)
        if given is not None:
            config.residual = given.address
        if pool is not None:
            config.parallel = pool.parallel
        message = message_of(config)
        super().__init__(lambda made: check(lib.tlc_create(made, byref(config), self.n), message.value),
                         lib.tlc_destroy, pool, [given])
        self.bound: int = lib.tlc_bound(self._handle)
        """The largest frame, in bytes: the room that compress_into needs."""
        self._frame: Optional[bytearray] = None

    def _try(self, function: Callable[..., int], *arguments: Any) -> None:
        """A call that may fail. The lock is held."""
        status = self._do(function, *arguments)
        if status:
            check(status, lib.tlc_last_error(self._handle))

    def compress(self, gradient: Any = None) -> bytes:
        """Compresses residual + gradient into a frame. None: the residual alone."""
        with self._lock:
            if self._frame is None:
                self._frame = bytearray(self.bound)
            return bytes(memoryview(self._frame)[:self._compress(gradient, self._frame)])

    def compress_into(self, gradient: Any, out: Any) -> int:
        """As compress, into a writable array of at least `bound` bytes. Returns the bytes of the frame."""
        with self._lock:
            return self._compress(gradient, out)

    def _compress(self, gradient: Any, out: Any) -> int:
        source = None if gradient is None else values(gradient, self.n, self.dtype, "gradient")
        target = octets(out, "out", writable=True)
        written = c_size_t()
        self._try(lib.tlc_compress, source and source.address, target.address, target.size, byref(written))
        return written.value

    def accumulate(self, gradient: Any) -> None:
        """residual += gradient; nothing is sent. For local steps between two compressions."""
        source = values(gradient, self.n, self.dtype, "gradient")
        with self._lock:
            self._try(lib.tlc_accumulate, source.address)

    @property
    def residual(self) -> Any:
        """What was not sent yet: the array that was given, or a writable memoryview of n floats, for
        numpy.asarray() or torch.frombuffer(). None without error feedback."""
        if self._given_residual is not None:
            return self._given_residual
        address = lib.tlc_residual(self._handle)
        return None if address is None else borrowed(address, 4 * self.n, self, "f", writable=True)

    def residual_scale(self, factor: float) -> None:
        """residual *= factor, for a new loss scale or learning rate."""
        with self._lock:
            self._try(lib.tlc_residual_scale, real(factor, "factor"))

    def set_codec(self, codec: str) -> None:
        """Changes the codec between two compressions; the residual stays. CapacityError: it had to be reserved."""
        check_codec(codec)
        with self._lock:
            self._try(lib.tlc_set_codec, coded(codec, "codec"))

    def reset(self) -> None:
        """Sets residual and step to 0."""
        with self._lock:
            self._do(lib.tlc_reset)

    @property
    def isa(self) -> Isa:
        """The instructions that this context uses."""
        return Isa(lib.tlc_isa_used(self._handle))

    def state_dict(self) -> Dict[str, Any]:
        """Codec, seed, step and residual, to go on with the same bits. The state is the same on every machine."""
        return {"version": STATE_VERSION, "state": self._saved(lib.tlc_state_size, lib.tlc_state_save)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Restores a state_dict() of a context of the same n, dtype and feedback."""
        view = octets(saved_state(state, STATE_VERSION), "state")
        with self._lock:
            self._try(lib.tlc_state_load, view.address, view.size)

    def __repr__(self) -> str:
        return f"<threelc.Context of {self.n} {self.dtype.name.lower()} values, bound {self.bound} bytes>"
