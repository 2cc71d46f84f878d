# SPDX-License-Identifier: MIT
"""Process groups that compress, beside doubles of gloo and of AllReduce: which reductions are compressed, under which
names, and what new_group() makes."""
import unittest
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist

from cluster import attempt
from faults import prepared
from threelc.torch import process_group
from threelc.torch._common.versions import has_backward_passes


def in_backward(function):
    """Calls it while a backward pass runs."""
    with torch.enable_grad():
        one = 2 * torch.ones(1, requires_grad=True)
    one.register_hook(lambda gradient: function() and None)
    one.backward()


@unittest.skipUnless(has_backward_passes(), "PyTorch 1 does not say which backward pass runs")
class ProcessGroups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prepared()

    def setUp(self):
        self.begun = []
        self.group = self.made(0)

    def made(self, warmup, error=None):
        def start(name, tensor):
            self.begun.append((name, tensor))
            future = torch.futures.Future()
            if error is None:
                future.set_result(tensor)
            else:
                future.set_exception(error)
            return future

        group = process_group.ProcessGroup(dist.distributed_c10d._get_default_group(), SimpleNamespace(start=start),
                                           warmup)
        group._floats = mock.Mock()
        return group

    def names(self, *passes, group=None):
        """Of what is compressed, in passes that reduce tensors of so many values."""
        self.begun.clear()
        for sizes in passes:
            in_backward(lambda sizes=sizes: [(group or self.group).allreduce([torch.ones(n)]) for n in sizes])
        return [name for name, _ in self.begun]

    def test_places(self):
        """Residuals belong to places in a pass, and the first passes go as floats."""
        self.assertEqual(self.names([6, 5], [6, 5], [4]), ["1 of 6", "2 of 5"] * 2 + ["1 of 4"])
        for warmup in 1, 2:
            group = self.made(warmup)
            self.assertEqual(self.names(*[[6, 5]] * 4, group=group), ["1 of 6", "2 of 5"] * (4 - warmup))
            self.assertEqual(group._floats.allreduce.call_count, 2 * warmup)
        self.begun.clear()
        group = self.made(1)
        for number in -1, 0, 0, 1, -1, 2:  # from the first pass of a process on; -1: in none
            with mock.patch.object(process_group, "backward_pass", lambda number=number: number):
                group.allreduce([torch.ones(7)])
        self.assertEqual(len(self.begun), 2)

    def test_what_goes_as_floats(self):
        """What is no sum or mean of one dense tensor in a backward pass; it takes no place."""
        floats = self.group._floats.allreduce
        floats.return_value = "work"
        self.group.allreduce([torch.ones(3)])
        across = torch.ones(3, 2).t()
        for tensors, op in (([torch.ones(3)] * 2, dist.ReduceOp.SUM), ([torch.ones(3).double()], dist.ReduceOp.SUM),
                            ([across], dist.ReduceOp.SUM), ([torch.ones(0)], dist.ReduceOp.SUM),
                            ([torch.ones(3)], dist.ReduceOp.MAX)):
            options = dist.AllreduceOptions()
            options.reduceOp = op
            in_backward(lambda tensors=tensors, options=options: self.assertEqual(
                self.group.allreduce(tensors, options), "work"))
            self.assertEqual(floats.call_args, mock.call(tensors, options))
        self.assertEqual((self.begun, floats.call_count), ([], 6))
        self.assertEqual(floats.call_args_list[0], mock.call([mock.ANY]))
        self.assertEqual(self.names([6]), ["1 of 6"])

    def test_sums_and_means(self):
        """AllReduce gives means. It gets what does not belong to the graph."""
        mean = dist.AllreduceOptions()
        mean.reduceOp = dist.ReduceOp.AVG
        for options, factor in (None, 3), (dist.ReduceOp.SUM, 3), (dist.ReduceOp.AVG, 1), (mean, 1):
            for given in torch.full((4,), 2.0, requires_grad=True), [torch.full((4,), 2.0)]:
                works = []
                with mock.patch.object(process_group.ProcessGroup, "size", lambda group: 3):
                    in_backward(lambda given=given, options=options: works.append(self.group.allreduce(given, options)))
                found, = works[0].get_future().wait()
                self.assertEqual((found.tolist(), found.requires_grad), ([2.0 * factor] * 4, False))
                self.assertEqual((works[0].wait(), works[0].is_completed()), (True, True))
                self.assertEqual(len(self.group._works), 1)
        group, works = self.made(0, ZeroDivisionError("y")), []
        in_backward(lambda: works.append(group.allreduce([torch.ones(3)])))
        self.assertEqual(attempt(works[0].wait)[:2], ("ZeroDivisionError", "y"))

    def test_passes_in_passes(self):
        said = []
        in_backward(lambda: in_backward(lambda: said.append(attempt(self.group.allreduce, [torch.ones(3)])[:2])))
        self.assertEqual(said, [("RuntimeError", "gradients come from a backward pass inside another one, as with "
                                 "checkpoint(use_reentrant=True), so they have no places: use use_reentrant=False, or "
                                 "register()")])

    def test_other_collectives(self):
        """They are gloo's."""
        for name in "allgather", "_allgather_base", "alltoall_base", "barrier", "broadcast", "recv", "send", "scatter":
            self.assertIs(getattr(self.group, name)(1, some=2), getattr(self.group._floats, name).return_value)
            getattr(self.group._floats, name).assert_called_once_with(1, some=2)
            self.assertEqual(getattr(process_group.ProcessGroup, name).__name__, name)
        self.assertEqual(self.group.getBackendName(), "threelc")
        self.group._set_group_name("some")  # as PyTorch does
        self.assertEqual(self.group.group_name, "some")

    def test_new_group(self):
        """Two of gloo, with the timeout of the default group, or the one that is given."""
        real, calls = dist.distributed_c10d._get_default_group(), []

        def new_group(backend, **arguments):
            calls.append((backend, arguments))
            return process_group._take() if backend == "threelc" else real

        given, default = timedelta(seconds=5), timedelta(seconds=7)
        for timeout, known, found in ((given, default, given), (None, default, default), (None, None, None)):
            for ranks in None, (0, 3):
                calls.clear()
                with mock.patch.object(dist, "new_group", new_group), \
                        mock.patch.object(process_group, "timeout_of", lambda group, known=known: known), \
                        mock.patch.object(process_group, "AllReduce") as exchange:
                    group = process_group.new_group("topk:p=0.1", "gather", ranks=ranks, timeout=timeout,
                                                    warmup_steps=2, seed=3)
                wanted_of = {} if found is None else {"timeout": found}
                if ranks is not None:
                    wanted_of.update(ranks=[0, 3], use_local_synchronization=True)
                self.assertEqual(calls, [("gloo", wanted_of)] * 2 + [("threelc", wanted_of)])
                self.assertEqual(exchange.call_args, mock.call(real, "topk:p=0.1", "gather", seed=3))
                self.assertEqual((group.exchange, group._warmup), (exchange.return_value, 2))
        for arguments, kind, words in (
                ({"ranks": [1, 2]}, "ValueError", "ranks is [1, 2], and this is rank 0: only ranks of the group call "
                                                  "new_group()"),
                ({"warmup_steps": -1}, "ValueError", "warmup_steps should be at least 0, not -1")):
            self.assertEqual(attempt(lambda: process_group.new_group(**arguments))[:2], (kind, words))
        with mock.patch.object(dist, "is_initialized", lambda: False):
            self.assertEqual(attempt(process_group.new_group)[:2], (
                "RuntimeError", "there are no other ranks yet: call torch.distributed.init_process_group() first"))
        with mock.patch.object(process_group, "has_backward_passes", lambda: False):
            self.assertEqual(attempt(process_group.new_group)[1], f"PyTorch {torch.__version__} does not say which "
                             "backward pass runs: it needs PyTorch 2")
        self.assertEqual(attempt(process_group._take)[:2], ("RuntimeError", "threelc.torch.new_group() makes groups of "
                                                                            "this backend"))


if __name__ == "__main__":
    unittest.main()
