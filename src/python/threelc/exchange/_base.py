# SPDX-License-Identifier: MIT
"""What the objects of the exchange have in common: tensors, configuration, outcomes, states."""
from __future__ import annotations

import math
from contextlib import contextmanager
from ctypes import byref, c_float, c_uint64, pointer, sizeof
from dataclasses import dataclass, fields, replace
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _c
from .._arrays import DTypeLike, Messages, View, borrowed, check_apart, dtype_of, values
from .._c import DType, Isa
from .._errors import Error, ParameterError, Status, StepError, error_of
from .._library import check, coded, count, described, lib, listed, real, text
from .._object import CObject, saved_state
from .._parallel import threads_of
from ..codec_strings import codec_list
from ..context import isa_of

STATE_VERSION = 1  # of state_dict()

OwnedFrame = Tuple[memoryview, float]
"""a frame that was pushed, and its factor in the mean"""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the exchange."""

    name: str
    """unique in the object: states find their tensor by it"""
    n: int
    """values"""
    push: Optional[str] = None
    """codec of pushes. None: the configuration's, or raw if n < min_n"""
    pull: Optional[str] = None
    """codec of answers. None: the configuration's, or raw if n < min_n"""
    residual: Any = None
    """of the pushes: n float32 values of the caller's, used as they are. None: the object has its own, at first 0"""
    only: Optional[int] = None
    """the one worker whose pushes count, as for batch-norm statistics. None: those of all"""


@dataclass(frozen=True)
class Config:
    """What all machines of an exchange agree on; dtype, seed, keep, backup, isa and threads may differ."""

    workers: int
    servers: int = 0
    """0: every rank is worker and owner (all-reduce)"""
    push: Optional[str] = None
    """codec of pushes. None: "3lc"; of Gossip "qsgd:bits=8\""""
    pull: Optional[str] = None
    """codec of answers. None: pull_codec(push)"""
    reserve: Union[None, str, Sequence[str]] = None
    """codecs that set_codec must be able to switch to"""
    gather: bool = False
    """all-reduce: every rank sends its frames to all, and there is no second lossy step"""
    sum: bool = False
    """results are sums. False: weighted means over those who took part"""
    owners: int = 0
    """all-reduce: at most this many ranks own parts; 0: all"""
    keep: int = 4
    """answers that an owner keeps for those who fell behind"""
    backup: int = 0
    """a server is ready when workers - backup have pushed"""
    min_n: int = 256
    """smaller tensors are sent raw, if they name no codec"""
    split_n: int = 65536
    """tensors from this size on may be split among owners"""
    assume_finite: bool = False
    """the caller has checked the gradients"""
    dtype: DTypeLike = DType.F32
    """of gradients and results"""
    seed: int = 0
    """of stochastic codecs"""
    isa: Union[str, Isa] = Isa.AUTO
    threads: Optional[int] = None
    """that compress and decode. The bytes are the same with any number"""


@dataclass(frozen=True)
class Outcome:
    """What the last call found: push, reduce, average, answer, pull, join, lose, hello, greet, cancel or
    load_state_dict, or any other call that failed."""

    status: Status
    cause: Status
    """why a step failed, or went on without somebody, or why the call failed; OK: nothing"""
    step: int
    rank: Optional[int]
    """who is at fault"""
    tensor: Optional[int]
    """index of the tensor at fault"""
    taken: Optional[FrozenSet[int]]
    """after reduce and pull: the workers whose push was taken; of Gossip: the node, and its neighbours whose frames
    were taken. None: not known"""
    unknown: int
    """after load_state_dict: entries of the states that have no place"""
    missing: int
    """after load_state_dict: tensors that are in no state"""
    sentence: str
    """never empty: "worker 3 sent step 17, this is step 18\""""


STARVES_FROM = 15  # TLC_STARVES_FROM


@dataclass(frozen=True)
class Stats:
    """Since the object was made; signals and residuals are those of the last step in which it made frames."""

    steps: int
    failed: int
    late: int
    float_bytes: int
    """what `sent` would be with the codec raw, without the heads of messages and frames"""
    sent: int
    """bytes of messages to others"""
    received: int
    """bytes of messages from others"""
    dropped: int
    """values whose part of a failed step could not go back, as their codec keeps no residual"""
    push_signal_squares: float
    """sum of the squares of the gradients that came; of large tensors an estimate"""
    push_residual_squares: float
    """the same of what their frames left for later. Frames that the caller made do not count"""
    pull_signal_squares: float
    """of the means or changes that this object answers with; 0: of a worker"""
    pull_residual_squares: float

    @property
    def push_residual_ratio(self) -> float:
        """Residual over signal, as 2-norms. 0: nothing was sent, or the codec keeps no residual."""
        return residual_ratio(self.push_residual_squares, self.push_signal_squares)

    @property
    def pull_residual_ratio(self) -> float:
        """The same of answers. If it stays above STARVES_FROM, most of the means come too late: the loop starves."""
        return residual_ratio(self.pull_residual_squares, self.pull_signal_squares)


def pull_codec(push: Optional[str] = None) -> str:
    """The codec of answers where none is given: one that keeps up with what comes of pushes, which is `push` itself
    where it sends enough."""
    return text(lib.tlc_pull_codec(_coded(push, "push")))


def residual_ratio(residual: float, signal: float) -> float:
    """Of sums of squares."""
    return math.sqrt(residual / signal) if signal > 0 else 0.0


@dataclass(frozen=True)
class Part:
    """A part of a tensor that a server or rank owns, or that a rank pushes."""

    tensor: int
    """index of the tensor"""
    first: int
    n: int
    """values first .. first + n - 1 of the tensor"""
    mean: memoryview
    """n floats: mean or sum of the pushes, from reduce until the next reduce; empty for pushed parts"""
    residual: Optional[memoryview]
    """n floats: what answers, or pushes, did not send yet. None: the codec keeps no residual"""
    seed: int
    """of the random words of its frames, in pushes or, of an owner, in answers; their step is that of the object. 0: it
    shares a frame, or is pulled"""


def outcome_of(found: _c.Outcome) -> Outcome:
    taken = None
    if found.taken:
        taken = frozenset(i for i in range(found.workers) if found.taken[i // 8] >> i % 8 & 1)
    return Outcome(status=Status(found.status), cause=Status(found.cause), step=found.step,
                   rank=None if found.rank == _c.NOBODY else found.rank,
                   tensor=None if found.tensor == _c.ALL else found.tensor, taken=taken, unknown=found.unknown,
                   missing=found.missing,
                   sentence=text(found.sentence).replace("state_salvage takes", "lost=True takes"))


def tensors_of(tensors: Any) -> List[Tensor]:
    """Tensors as a list. TypeError: they are something else."""
    found = listed(tensors, None, "tensors", "threelc.exchange.Tensor")
    for i, tensor in enumerate(found):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensors[{i}] should be a threelc.exchange.Tensor(name, n), not {described(tensor)}")
    return found


def _check_places(found: Outcome) -> None:
    """ParameterError: states that were loaded had more than there is a place for."""
    if found.unknown:
        raise ParameterError(Status.PARAM, f"{found.sentence}. What these entries hold would be lost; lost=True takes "
                                           "it for lost", found)


class Arguments:
    """A configuration and tensors as the C library takes them. It keeps alive what they point to."""

    def __init__(self, config: Config, tensors: Sequence[Tensor]) -> None:
        if not isinstance(config, Config):
            raise TypeError(f"config should be a threelc.exchange.Config, not {described(config)}")
        self.dtype = dtype_of(config.dtype)
        self.sizes = [count(tensor.n, f"n of {tensor.name}") for tensor in tensors]
        self.names = [tensor.name for tensor in tensors]
        self.threads = threads_of(config.threads)
        self.config = _c.ExchangeConfig()
        check(lib.tlc_exchange_config_init(byref(self.config), sizeof(self.config)))
        for name in ("workers", "servers", "owners", "keep", "backup"):
            setattr(self.config, name, count(getattr(config, name), name, 32))
        for name in ("min_n", "split_n"):
            setattr(self.config, name, count(getattr(config, name), name))
        for name in ("gather", "sum", "assume_finite"):
            setattr(self.config, name, int(getattr(config, name)))
        self.config.push = _coded(config.push, "push")
        self.config.pull = _coded(config.pull, "pull")
        self.config.reserve = codec_list(config.reserve)
        self.config.dtype = self.dtype
        self.config.seed = count(config.seed, "seed", 64)
        self.config.isa = isa_of(config.isa)
        if self.threads is not None:
            self.config.parallel = self.threads.parallel
        self.residuals = [None if t.residual is None else
                          values(t.residual, t.n, DType.F32, f"residual of {t.name}", writable=True) for t in tensors]
        check_apart(self.residuals)
        self.tensors = (_c.Tensor * len(tensors))()
        for entry, tensor, n, residual in zip(self.tensors, tensors, self.sizes, self.residuals):
            entry.struct_size = sizeof(_c.Tensor)
            entry.name, entry.n = coded(tensor.name, "the name of a tensor"), n
            entry.push, entry.pull = _coded(tensor.push, "push"), _coded(tensor.pull, "pull")
            entry.residual = None if residual is None else residual.address
            entry.only = _c.NOBODY if tensor.only is None else count(tensor.only, f"only of {tensor.name}", 31)


def _coded(codec: Optional[str], what: str) -> Optional[bytes]:
    return None if codec is None else coded(codec, what)


class ExchangeObject(CObject):
    """The calls that every object has. `_name` is its kind as the C functions have it."""

    _name = ""

    def __init__(self, config: Config, tensors: Sequence[Tensor], *which: Any, after: Sequence[Any] = ()) -> None:
        """which, after: arguments of tlc_NAME_create before and after the tensors."""
        tensors = tensors_of(tensors)
        arguments = Arguments(config, tensors)
        found = _c.Outcome(struct_size=sizeof(_c.Outcome))
        arguments.config.outcome = pointer(found)

        def make(made: Any) -> None:
            status = self._function("create")(made, byref(arguments.config), *which, arguments.tensors, len(tensors),
                                              *after)
            if status:
                raise error_of(status, text(found.sentence), outcome_of(found))

        super().__init__(make, self._function("destroy"), arguments.threads, arguments.residuals)
        self.config = config
        self._which = which
        self.tensors = tuple(tensors)
        self._dtype = arguments.dtype
        self._sizes = arguments.sizes
        self._indices = {name: i for i, name in enumerate(arguments.names)}

    def _function(self, verb: str) -> Any:
        return getattr(lib, f"tlc_{self._name}_{verb}")

    def _call(self, verb: str, *arguments: Any) -> None:
        """A call whose outcome tells why it failed."""
        self._check(self._do(self._function(verb), *arguments))

    def _check(self, status: int) -> None:
        if status:
            outcome = self._outcome()
            raise error_of(status, outcome.sentence, outcome)

    def outcome(self) -> Outcome:
        """What the last call found."""
        with self._lock:
            return self._outcome()

    def _outcome(self) -> Outcome:
        found = _c.Outcome(struct_size=sizeof(_c.Outcome))
        check(self._function("outcome")(self._handle, byref(found)))
        return outcome_of(found)

    def _message(self, message: _c.Message) -> memoryview:
        return borrowed(message.data, message.len, self)

    def _messages(self, messages: Sequence[Any], needed: int) -> Messages:
        return Messages(messages, "messages", needed)

    def _again(self, step: int) -> memoryview:
        message = _c.Message()
        with self._lock:
            self._check(self._function("again")(self._handle, count(step, "step", 64), byref(message)))
            return self._message(message)

    def _parts(self, number: str = "parts", one: str = "part") -> List[Part]:
        with self._lock:
            found = []
            part = _c.Part(struct_size=sizeof(_c.Part))
            for i in range(self._function(number)(self._handle)):
                self._check(self._function(one)(self._handle, i, byref(part)))
                mean = borrowed(part.mean, 4 * part.n, self, "f")
                residual = None if part.residual is None else borrowed(part.residual, 4 * part.n, self, "f")
                found.append(Part(part.tensor, part.first, part.n, mean, residual, part.seed))
            return found

    def _tensor(self, tensor: Union[None, int, str]) -> int:
        """The index of a tensor, given by index or name. None: all."""
        if tensor is None:
            return _c.ALL
        if isinstance(tensor, str):
            if tensor not in self._indices:
                raise KeyError(f"there is no tensor {tensor!r}")
            return self._indices[tensor]
        if not 0 <= tensor < len(self._sizes):
            raise IndexError(f"there is no tensor {tensor}")
        return tensor

    def set_codec(self, tensor: Union[None, int, str], codec: str) -> None:
        """Changes the codec of a tensor, of a worker's pushes or a server's answers; None: of all that have the codec
        of the configuration."""
        self._set_codec(tensor, codec)

    def _set_codec(self, tensor: Union[None, int, str], *codecs: Optional[str]) -> None:
        i = self._tensor(tensor)
        with self._lock:
            self._call("set_codec", i, *(_coded(codec, "codec") for codec in codecs))

    @property
    def step(self) -> int:
        """The step under way, counted from 1."""
        return int(self._function("step")(self._handle))

    @property
    def message_bound(self) -> int:
        """The most bytes of a message to this object. A receiver refuses a longer one before it takes memory for it."""
        return int(self._function("message_bound")(self._handle))

    @property
    def stats(self) -> Stats:
        """Steps and bytes since the object was made."""
        found = _c.ExchangeStats(struct_size=sizeof(_c.ExchangeStats))
        with self._lock:
            self._check(self._function("stats")(self._handle, byref(found)))
        return Stats(**{field.name: getattr(found, field.name) for field in fields(Stats)})

    def state_dict(self) -> Dict[str, Any]:
        """Step, codecs and residuals, or of Gossip model and replicas, by names of tensors. OrderError: a step is under
        way."""
        state = self._saved(self._function("state_size"), self._function("state_save"))
        return {"version": STATE_VERSION, "kind": self._name, "state": state}

    def load_state_dict(self, states: Union[Dict[str, Any], Iterable[Dict[str, Any]]], lost: bool = False) -> None:
        """Goes on from a state_dict(). With as many ranks as before, each needs its own; otherwise give each the states
        of all ranks, and residuals are dealt out so that means stay what they would have been. Nodes of Gossip then all
        go on from the mean of their models.

        ParameterError: also if states are missing, or have residuals of tensors that keep none here; it names them.
        lost: these are lost, and the run goes on without their residuals."""
        messages = self._states(states)
        if not lost:
            twin = self._twin()
            if twin._try_states(messages, lost) == Status.OK:
                _check_places(twin._outcome())
        self._load(messages, lost)

    def load_checked(self, states: Union[Dict[str, Any], Iterable[Dict[str, Any]]], lost: bool = False) -> None:
        """load_state_dict() of states that check_states() took."""
        self._load(self._states(states), lost)

    def _load(self, messages: Messages, lost: bool) -> None:
        with self._lock:
            self._check(self._try_states(messages, lost))

    def check_states(self, states: Union[Dict[str, Any], Iterable[Dict[str, Any]]], lost: bool = False,
                     partly: Optional[bool] = None) -> None:
        """Raises what load_state_dict() would raise, and changes nothing. partly: whether states may have more than
        there is a place for; None: as lost."""
        messages, twin = self._states(states), self._twin()
        with self._lock:
            status = self._do(self._function("state_load"), messages.array, 0)  # asks whether a step is under way
            if status == Status.ORDER:
                self._check(status)
        twin._check(twin._try_states(messages, lost))
        if not (lost if partly is None else partly):
            _check_places(twin._outcome())

    def _states(self, states: Any) -> Messages:
        every = [states] if isinstance(states, Mapping) else listed(states, None, "states", "states")
        return Messages([saved_state(state, STATE_VERSION, self._name) for state in every], "states")

    def _try_states(self, messages: Messages, lost: bool) -> int:
        """Returns the status. The lock is held, or nobody else has this object."""
        verb = "state_salvage" if lost else "state_load"
        return int(self._do(self._function(verb), messages.array, len(messages)))

    def _twin(self) -> ExchangeObject:
        """A new object as this one was made, with residuals of its own, that states can be tried on."""
        tensors = [tensor if tensor.residual is None else replace(tensor, residual=(c_float * n)())
                   for tensor, n in zip(self.tensors, self._sizes)]
        return self._made_again(replace(self.config, threads=None), tensors)

    def _made_again(self, config: Config, tensors: Sequence[Tensor]) -> ExchangeObject:
        return type(self)(config, *self._which, tensors)

    def __repr__(self) -> str:
        return f"<threelc.exchange.{type(self).__name__} of {len(self._sizes)} tensors, step {self.step}>"


class FeedbackObject(ExchangeObject):
    """The calls of objects whose codecs may keep residuals."""

    def _owned_frames(self, views: Sequence[Optional[View]], *messages: Any) -> List[Dict[int, OwnedFrame]]:
        """views: of the messages of pushes. The lock is held."""
        workers, parts = self.config.workers, self._function("parts")(self._handle)
        frames, factors = (_c.Message * (parts * workers))(), (c_float * (parts * workers))()
        self._call("owned_frames", *messages, frames, factors)
        return [{rank: (borrowed(frames[i].data, frames[i].len, views), factors[i])
                 for rank, i in enumerate(range(part * workers, (part + 1) * workers)) if frames[i].len}
                for part in range(parts)]

    @property
    def history(self) -> int:
        """A hash of the answers of the last step that did not fail. In the same step all who take part in a run have
        the same, those of several servers added up, modulo 2**64. So it tells whether states that were loaded are of
        one run. 0: not known, as before the first step."""
        return int(self._function("history")(self._handle))

    def residual_scale(self, factor: float) -> None:
        """All residuals *= factor, for a new loss scale or learning rate."""
        with self._lock:
            self._call("residual_scale", real(factor, "factor"))


class Kept:
    """Memory of the caller's that C has pointers to in a step, after the call that gave it them."""

    _of: Tuple[Optional[int], Sequence[Optional[View]]] = None, ()  # the step, and what is kept in it

    def views(self, step: int) -> Sequence[Optional[View]]:
        """In this step. After an exception of a signal more than C has."""
        return self._of[1] if self._of[0] == step else ()

    @contextmanager
    def keeping(self, step: int, views: Sequence[Optional[View]]) -> Iterator[None]:
        """Around the call. If it fails, C has what it had before, else the new ones."""
        before = self._of
        self._of = step, (*self.views(step), *views)
        try:
            yield
        except StepError:
            self._of = step, views
            raise
        except Error:
            self._of = before
            raise
        self._of = step, views

    def end(self, step: int) -> None:
        """step: the one under way. What is of others is not needed."""
        if self._of[0] != step:
            self.clear()

    def clear(self) -> None:
        self._of = None, ()


def use_again(views: Iterable[Optional[View]]) -> None:
    """View.use_again() of bytes and values that are read."""
    for view in views:
        if view is not None:
            view.use_again(writable=False)


def steps_of(steps: Sequence[int]) -> Any:
    """Steps as the C library takes them."""
    return (c_uint64 * len(steps))(*(count(step, "step", 64) for step in steps))
