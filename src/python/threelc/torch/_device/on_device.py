# SPDX-License-Identifier: MIT
"""Quantization where the gradients are: 3-value symbols, codes of natural, int8, qsgd and onebit, and what topk,
sparse-binary and random-sparse choose.

Accumulation, quantization, residual and packing run there, without blocks zero-run and Golomb coding, too. As payloads,
as quartic bytes (1.6 bits a value) or codes they come to the host, where frames are finished; of what is chosen
positions and values do. Answers go back as such bytes, too, and are decoded there.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from ... import exchange
from ..._errors import Status, StepError
from ...codec_strings import quantizer_of
from ...frames import decompress, peek
from ...quartic import quartic_bytes
from ..kernels.choice import sweeps_for
from ..kernels.code_choice import code_sweeps_for
from ..kernels.codes import Codes, Words
from ..kernels.selector import Selector
from ..kernels.ways import AnyQuantizer, coding_of, floats_on_device
from .crossing import Quartic, payloads_on_device, put_members, way_of_symbols
from .norms import Norms, Taken, values_at
from .residuals import Residuals
from .streams import forked, lent

_Answer = Tuple[Any, torch.Tensor, int]  # frame, where it goes, values of a block


class PushedFrames:
    """Pushes of an object of the exchange whose tensors are quantized on a device."""

    def __init__(self, pushing: Union[exchange.AllReduce, exchange.Worker, exchange.Gossip],
                 quantizer: AnyQuantizer, tensors: Iterable[int], device: torch.device,
                 residuals: Dict[int, torch.Tensor], residual_dtype: torch.dtype = torch.float32) -> None:
        """tensors: the indices of those that are quantized there. residuals: on the device, of those that have one."""
        self._pushing: Any = pushing
        self._quantizer = quantizer
        self._ours = set(tensors)
        self._device = device
        self._residual_dtype = residual_dtype
        self._parts: List[Tuple[int, int, int]] = [(p.tensor, p.first, p.n) for p in pushing.pushed_parts()]
        self._seeds = {(p.tensor, p.first, p.n): p.seed for p in pushing.pushed_parts()}
        self._quantized = [part for part in self._parts if part[0] in self._ours]
        self.residuals = residuals
        self._kept = [part for part in self._quantized if part[0] in residuals]
        self.norms = Norms([n for _, _, n in self._kept], device)

    @forked
    def push(self, gradients: Sequence[torch.Tensor], *weight: float,
             beside: Optional[Sequence[torch.Tensor]] = None) -> Any:
        """The object's push of gradients on the device, with the weight that it takes. beside: what it takes itself, on
        the CPU, where frames are of something else. None: the gradients."""
        lent(gradients)
        if not self._quantized:  # as in steps of floats, and where tensors are empty
            return self._pushing.push(beside or [gradient.cpu() for gradient in gradients], *weight)
        ours, step = self._quantized, self._pushing.step
        coding = coding_of(self._quantizer, [(_part_of(self.residuals, part), _gradient_of(gradients, part))
                                             for part in ours],
                           [Words(self._seeds[part], step) for part in ours], self._device, self._residual_dtype)
        if not all(coding.finite):
            return self._push_nothing(gradients, dict(zip(ours, coding.finite)), beside, *weight)
        rest = {i: torch.empty_like(residual) for i, residual in self.residuals.items()}
        frames = coding.frames([_part_of(rest, part) for part in ours], self._pushing.config.dtype)
        return self._push_frames(gradients, dict(zip(ours, frames)), rest, self._taken(gradients, rest), beside,
                                 *weight)

    def _taken(self, gradients: Sequence[torch.Tensor], rest: Dict[int, torch.Tensor]) -> Taken:
        """What norms look at."""
        step, places = self._pushing.step, self.norms.places(self._pushing.step)
        return (step, values_at([_gradient_of(gradients, part) for part in self._kept], places),
                values_at([rest[tensor][first:first + n] for tensor, first, n in self._kept], places))

    def _push_frames(self, gradients: Sequence[torch.Tensor], frames: Dict[Tuple[int, int, int], bytes],
                     rest: Dict[int, torch.Tensor], taken: Taken, beside: Optional[Sequence[torch.Tensor]],
                     *weight: float) -> Any:
        """frames: of parts, by tensor, first value and number. rest: the residuals if the push is taken."""
        others = beside or [None if i in self._ours else gradient.cpu() for i, gradient in enumerate(gradients)]
        messages = self._pushing.push_frames(others, [frames.get(part) for part in self._parts], *weight)
        if self._pushing.outcome().cause == Status.OK:
            self.norms.keep(*taken)
            for i, residual in self.residuals.items():
                residual.data = rest[i]
        return messages

    def _push_nothing(self, gradients: Sequence[torch.Tensor], finite: Mapping[Tuple[int, int, int], bool],
                      beside: Optional[Sequence[torch.Tensor]], *weight: float) -> Any:
        """A value is not finite. The object finds that itself, and tells all. finite: of parts."""
        if beside:
            return self._pushing.push(beside, *weight)
        bad = {i for (i, _, _), is_finite in finite.items() if not is_finite}
        found: List[Any] = [
            torch.full_like(gradient, math.nan if i in bad else 0.0, device="cpu") if i in self._ours else
            gradient.cpu() for i, gradient in enumerate(gradients)]
        return self._pushing.push(found, *weight)


class OnDevice(PushedFrames, Residuals):
    """The tensors of a worker, or of a rank of an all-reduce, that are quantized on a device, where their residuals
    are, too.

    When a push is not taken, or a step fails, the object puts what comes back into its own residuals, and pull() adds
    it to those of the device.
    """

    def __init__(self, pushing: Union[exchange.AllReduce, exchange.Worker],
                 quantizer: AnyQuantizer, host: Mapping[int, Optional[torch.Tensor]],
                 device: torch.device, residual_dtype: torch.dtype = torch.float32) -> None:
        """host: the residuals of the object, by index of the tensor; None: it keeps none. Those on the device, of
        residual_dtype, begin with their values."""
        self._object = pushing
        Residuals.__init__(self, {i: residual for i, residual in host.items() if residual is not None}, device,
                           residual_dtype)
        PushedFrames.__init__(self, pushing, quantizer, host, device, self.residuals, residual_dtype)
        self._pulled: List[Tuple[int, int, int]] = [(p.tensor, p.first, p.n) for p in pushing.pulled_parts()]

    @forked
    def pull(self, messages: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """The object's pull to tensors on the device; with gather the host decodes all."""
        lent(out)
        gather, late, decoded = self._object.config.gather, self._object.stats.late, {i for i, _, _ in self._pulled}
        # the parts of a server on which the step failed stay what they are
        host = [None if i in decoded else torch.empty_like(o, device="cpu") if gather else o.cpu()
                for i, o in enumerate(out)]
        failure: Optional[StepError] = None
        frames: Sequence[Any] = ()
        try:
            if gather:
                self._object.pull(messages, host)
            else:
                frames = self._object.pull_frames(messages, host)
        except StepError as error:
            failure, frames = error, error.frames
        self._decode(frames, out)
        for target, values in zip(out, host):
            if values is not None and not (gather and failure):
                target.copy_(values)
        if failure is not None or self._object.stats.late != late:
            self.take_back()
        if failure is not None:
            raise failure

    def _decode(self, frames: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """frames: of all pulled parts; None: its step failed. Other owners may have other codecs: what has no kernels,
        the host decodes."""
        symbols: Dict[Callable[..., Quartic], List[_Answer]] = {}  # by how they become quartic bytes
        coded = []  # frame, where it goes, codec
        chosen, theirs = [], []  # frames of members, where these go
        for (i, first, n), frame in zip(self._pulled, frames):
            if frame is None:
                continue
            target, info = out[i].view(-1)[first:first + n], peek(frame)
            if quantizer_of(info.codec)[0] in ("ternary", "stochastic-ternary"):
                symbols.setdefault(way_of_symbols(info), []).append((frame, target, info.block))
                continue
            codes = Codes.of(info.codec)
            if Selector.of(info.codec) is not None:
                chosen.append(frame)
                theirs.append(target)
            elif codes is None:
                target.copy_(decompress(frame, torch.empty_like(target, device="cpu")))
            else:
                coded.append((frame, target, codes))
        self._decode_codes(coded)
        put_members(chosen, theirs, self._device)
        for quartic_of, answers in symbols.items():
            frames, targets, blocks = zip(*answers)
            self._decode_quartic(answers, *quartic_of(frames, list(map(len, targets)), blocks, self._device))

    def _decode_quartic(self, answers: Sequence[_Answer], scales: Sequence[Sequence[float]],
                        quartic: torch.Tensor) -> None:
        """quartic: the bytes of all."""
        sizes = [quartic_bytes(len(target), block) for _, target, block in answers]
        there = floats_on_device(scales, self._device)
        for (_, target, block), piece, scale in zip(answers, quartic.split(sizes), there):
            sweeps_for(self._device, target.dtype, self._residual_dtype).decode(piece, scale, block, target)

    def _decode_codes(self, answers: Sequence[Tuple[Any, torch.Tensor, Codes]]) -> None:
        headers, payloads, sizes = payloads_on_device([frame for frame, _, _ in answers], self._device)
        for (_, target, codes), header, piece in zip(answers, headers, payloads.split(sizes)):
            n = len(target)
            code_sweeps_for(self._device, target.dtype, codes.name, self._residual_dtype).decode(
                codes, codes.planes(piece, n), codes.read(piece, n, header), target)


def _part_of(tensors: Dict[int, torch.Tensor], part: Tuple[int, int, int]) -> Optional[torch.Tensor]:
    tensor, first, n = part
    return tensors[tensor][first:first + n] if tensor in tensors else None


def _gradient_of(gradients: Sequence[torch.Tensor], part: Tuple[int, int, int]) -> torch.Tensor:
    tensor, first, n = part
    return gradients[tensor].view(-1)[first:first + n]
