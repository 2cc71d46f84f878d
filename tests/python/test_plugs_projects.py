# SPDX-License-Identifier: MIT
"""threelc.plugs beside the code of the projects that they are for, each where it is installed; those for vLLM and slime
else beside types that stand for theirs."""
import errno
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace

import project_types
import torch
from sentences import check_sentences
from test_plugs import bits, patch
from threelc import CorruptError, _bundles


def needs(*modules):
    def found(module):
        try:
            return importlib.util.find_spec(module) is not None
        except ImportError:  # of a package that it is in
            return False

    missing = [module for module in modules if not found(module)]
    return unittest.skipIf(missing, f"{' and '.join(missing)} not installed")


class Model(torch.nn.Module):
    """Two weights of a checkpoint in one parameter, as servers have them."""

    def __init__(self):
        super().__init__()
        self.packed = torch.nn.Parameter(torch.zeros(2000, 100, dtype=torch.bfloat16), requires_grad=False)

    def load_weights(self, weights):
        names = set()
        for name, tensor in weights:
            first = {"q": 0, "k": 1000}[name]
            self.packed[first:first + 1000].copy_(tensor)
            names.add(name)
        return names

    def check_has(self, test, patches):
        for each, first in zip(patches, (0, 100_000)):
            expected = torch.zeros(100_000, dtype=torch.bfloat16)
            expected[each.positions] = each.values
            test.assertEqual(bits(self.packed.flatten()[first:first + 100_000]), bits(expected))


def two():
    return [patch(name, torch.bfloat16, 0.01, seed, (1000, 100)) for seed, name in enumerate("qk")]


class VLLM(unittest.TestCase):
    def test_a_trainer_changes_the_weights_of_a_server(self):
        project_types.stand_in(self, project_types.vllm())
        sys.modules.pop("threelc.plugs.vllm", None)
        plug = importlib.import_module("threelc.plugs.vllm")
        from vllm.config.weight_transfer import WeightTransferConfig
        from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.sparse_nccl_engine import SparseWeightPatch

        plug.register()
        with self.assertRaisesRegex(ValueError, "already registered"):
            plug.register()
        model, calls = Model(), []
        configuration = SimpleNamespace(parallel_config=None, model_config=None)
        engine = WeightTransferEngineFactory.create_engine(WeightTransferConfig(backend=plug.BACKEND), configuration,
                                                           torch.device("cpu"), model)

        class Client:  # as that of HTTP: what it gets is JSON
            def init_weight_transfer_engine(self, info):
                calls.append("init")
                engine.init_transfer_engine(engine.parse_init_info(json.loads(json.dumps(info))))

            def start_weight_update(self):
                calls.append("start")
                engine.start_weight_update()

            def update_weights(self, info):
                engine.receive_weights(engine.parse_update_info(json.loads(json.dumps(info))))

            def finish_weight_update(self, weight_version=None):
                calls.append("finish")
                engine.finish_weight_update()

        given = two()
        patches = [SparseWeightPatch(each.name, each.positions.to(torch.int32), each.values, each.shape)
                   for each in given]
        trainer = WeightTransferTrainerFactory.trainer_init(plug.TrainerInfo(rank=0), client=Client())
        trainer.send_weights(patches)
        model.check_has(self, given)
        trainer.send_weights([])
        WeightTransferTrainerFactory.trainer_init(plug.TrainerInfo(rank=1), client=Client()).send_weights(patches)
        trainer.send_weights()
        self.assertEqual(calls, ["init", "start", "finish"])
        with self.assertRaisesRegex(ValueError, "source"):
            WeightTransferTrainerFactory.trainer_init(plug.TrainerInfo(rank=0), client=Client(), source=object())
        for wrong in "AAAA", "AA!AA", "A":
            with self.assertRaises(ValueError):
                engine.receive_weights(plug.UpdateInfo(wrong))
        model.check_has(self, given)
        engine.shutdown()
        self.assertFalse(engine.supports_draft_weight_update)


@needs("verl")
class Verl(unittest.TestCase):
    def test_flushes_come_back_and_are_applied(self):
        import threelc.plugs.verl as plug
        from verl.checkpoint_engine.delta_sync import DeltaFlush, DeltaParam, checksum
        from verl.workers.rollout.sglang_rollout.delta_loader import apply_delta

        given, params, at = two(), [], 0
        for each in given:
            end = at + len(each.values)
            params.append(DeltaParam(each.name, "bfloat16", list(each.shape), 4 * at, 4 * end, 4, at, end))
            at = end
        positions = torch.cat([each.positions for each in given]).to(torch.int32).view(torch.uint8)
        values = torch.cat([each.values for each in given])
        flush = DeltaFlush("indices", params, positions, values, checksum(positions, values))
        message = plug.pack(flush)
        self.assertLess(len(message), flush.wire_bytes / 2)
        came = plug.unpack(message)
        self.assertEqual((came.params, came.checksum), (params, flush.checksum))
        self.assertEqual(came.positions_cpu.tolist(), positions.tolist())
        self.assertEqual(bits(came.values_gpu), bits(values))
        spec = {"encoding": came.encoding, "params": [vars(each) for each in came.params], "checksum": came.checksum}
        model = Model()
        apply_delta(model, [("__delta_spec__", torch.tensor(list(json.dumps(spec).encode()), dtype=torch.uint8)),
                            ("__positions__", came.positions_cpu), ("__values__", came.values_gpu)])
        model.check_has(self, given)
        with self.assertRaisesRegex(ValueError, "dense"):
            plug.pack(DeltaFlush("dense", [], positions, values, 0))


class Slime(unittest.TestCase):
    def setUp(self):
        project_types.stand_in(self, project_types.SLIME)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in "trainer", "link", "engine":
            (self.folder / name).mkdir()
        os.environ["THREELC_SLIME_FOLDER"] = str(self.folder / "link")

    def version(self, number, encoding="xor", metadata="checksum"):
        """A folder as slime writes it, and the XORs in it."""
        import numpy
        import safetensors.numpy
        import zstandard

        draw = numpy.random.default_rng(number)
        xors = {name: ((draw.random(50_000) < 0.01) * draw.choice([1, 3], 50_000)).astype("<u2").tobytes()
                for name in ("q", "k")}
        target = self.folder / "trainer" / f"weight_v{number:06d}"
        target.mkdir()
        for file, (name, xor) in enumerate(xors.items()):
            packed = numpy.frombuffer(zstandard.ZstdCompressor(level=1).compress(xor), numpy.uint8)
            safetensors.numpy.save_file({name: packed}, target / f"model-{file:05d}-of-00002.safetensors",
                                        {name: f"{metadata} {number}"} if metadata else None)
        (target / "model.safetensors.index.json").write_text(json.dumps(
            {"metadata": {"version": f"{number:06d}", "delta_encoding": encoding}, "weight_map": {}}))
        return target, xors

    def test_versions_come_through_the_link(self):
        import safetensors
        import zstandard
        from threelc.plugs import slime

        for name in "weight_v000009.3lc", "weight_v000009.3lc.77":  # of a run before, and of one that was killed
            (self.folder / "link" / name).touch()
        slime.publish(None, str(self.folder / "trainer"), [])
        self.assertEqual(list((self.folder / "link").iterdir()), [])
        made = [self.version(number) for number in (1, 2)]
        for target, _ in made:
            slime.publish(None, str(target), [])
        for _ in range(2):  # each process of a host calls it
            slime.receive(str(self.folder / "engine"), 2)
        for target, xors in made:
            there = self.folder / "engine" / target.name
            self.assertEqual(sorted(path.name for path in there.iterdir()), sorted(p.name for p in target.iterdir()))
            self.assertEqual(json.loads((there / "model.safetensors.index.json").read_text()),
                             json.loads((target / "model.safetensors.index.json").read_text()))
            for path in target.glob("*.safetensors"):
                came = safetensors.safe_open(there / path.name, "numpy")
                with safetensors.safe_open(path, "numpy") as given:
                    self.assertEqual(given.metadata(), came.metadata())
                    for name in given.keys():
                        packed = came.get_tensor(name).tobytes()
                        self.assertEqual(packed, given.get_tensor(name).tobytes())
                        self.assertEqual(zstandard.ZstdDecompressor().decompress(packed), xors[name])
            files = sum(path.stat().st_size for path in target.glob("*.safetensors"))
            self.assertLess((self.folder / "link" / f"{target.name}.3lc").stat().st_size, files)

    def test_names_outlast_a_power_cut(self):
        """Each file is on the disk before it has its name, and the name before the next file: the index is the last."""
        from threelc.plugs import slime

        calls = []

        def sync(fd, real=os.fsync):
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            calls.append(("sync", "folder" if path.is_dir() else path.name.rsplit(".", 1)[0]))
            real(fd)

        def replace(beside, path, real=os.replace):
            calls.append(("name", path.name))
            real(beside, path)

        target = self.version(1)[0]
        with unittest.mock.patch("os.fsync", sync), unittest.mock.patch("os.replace", replace):
            slime.publish(None, str(target), [])
            slime.receive(str(self.folder / "engine"), 1)
        names = ["weight_v000001.3lc", *sorted(path.name for path in target.glob("*.safetensors")),
                 "model.safetensors.index.json"]
        self.assertEqual(calls, [call for name in names
                                 for call in (("sync", name), ("name", name), ("sync", "folder"))])

    def test_once_received(self):
        """The link is not read again; folders may be new, or left halfway. A file needs no metadata."""
        from threelc.plugs import slime

        target, _ = self.version(1, metadata=None)
        slime.publish(None, str(target), [])
        there = self.folder / "host" / "new"
        (there / target.name).mkdir(parents=True)
        for folder in there, self.folder / "other" / "new":
            slime.receive(str(folder), 1)
            self.assertEqual(sorted(path.name for path in (folder / target.name).iterdir()),
                             sorted(path.name for path in target.iterdir()))
        for path in (self.folder / "link").iterdir():
            path.unlink()
        slime.receive(str(there), 1)
        self.assertRaises(FileNotFoundError, slime.receive, str(there), 2)

    def test_one_trainer_publishes(self):
        from threelc.plugs import slime

        target, _ = self.version(1)
        with unittest.mock.patch("torch.distributed.is_initialized", return_value=True):
            for rank, files in ((1, []), (0, ["weight_v000001.3lc"])):
                with unittest.mock.patch("torch.distributed.get_rank", return_value=rank):
                    slime.publish(None, str(target), [])
                self.assertEqual([path.name for path in (self.folder / "link").iterdir()], files)

    def test_settings(self):
        from threelc.plugs import slime

        other, _ = self.version(1, "overwrite")
        cases = [(lambda: slime.publish(None, str(other), []), ValueError,
                  f"{other} has the encoding overwrite: set --update-weight-delta-encoding xor")]
        none, _ = self.version(2)
        (none / "model.safetensors.index.json").write_text("{}")
        cases += [(lambda: slime.publish(None, str(none), []), ValueError,
                   f"{none} has the encoding None: set --update-weight-delta-encoding xor")]
        check_sentences(self, *cases)
        with unittest.mock.patch.dict(os.environ):
            del os.environ[slime.FOLDER]
            words = "set THREELC_SLIME_FOLDER to the folder by which the trainer reaches the engines"
            check_sentences(self, (lambda: slime.receive("", 1), RuntimeError, words),
                            (lambda: slime.publish(None, str(none), []), RuntimeError, words))

    def test_file_systems_that_cannot_sync_folders(self):
        """Some say so; other errors are errors."""
        from threelc.plugs import slime

        target, _ = self.version(1)
        for code in errno.EINVAL, errno.ENOTSUP, errno.EIO:
            def sync(fd, code=code, real=os.fsync):
                if Path(os.readlink(f"/proc/self/fd/{fd}")).is_dir():
                    raise OSError(code, "")
                real(fd)

            with unittest.mock.patch("os.fsync", sync):
                if code == errno.EIO:
                    self.assertRaises(OSError, slime.publish, None, str(target), [])
                else:
                    slime.publish(None, str(target), [])

    def test_what_is_no_version_is_refused(self):
        from threelc.plugs import slime

        slime.publish(None, str(self.version(2)[0]), [])
        path = self.folder / "link" / "weight_v000001.3lc"
        good = path.with_name("weight_v000002.3lc").read_bytes()
        for bad in b"", good[:-1], good[:60], good.replace(b"model-00000-of", b"../../xxxxx-of"):
            path.write_bytes(bad)
            with self.assertRaises(CorruptError):
                slime.receive(str(self.folder / "engine"), 1)
        first, *frames = _bundles.unpack(good)
        head = json.loads(bytes(first))
        names = sorted(head["files"])
        size = head["files"][names[0]]["tensors"]["q"]
        self.assertEqual(size, 100_000)
        wrong = f"{path.name} is not a version: names or sizes are wrong"

        def with_first(**changes):
            return {**head, "files": {**head["files"], names[0]: {**head["files"][names[0]], **changes}}}

        most = 65536 * len(frames[0])
        for changed, sentence in (
                (with_first(tensors={}), wrong), (with_first(tensors={"q": size, "r": size}), wrong),
                (with_first(tensors={"q": 1e5}), wrong), (with_first(tensors={"q": most + 1}), wrong),
                (with_first(tensors={"q": most}), f"50000 weights of bf16 are not {most} bytes"),
                ({**head, "files": {"../a.safetensors" if name == names[0] else name: head["files"][name]
                                    for name in names}}, wrong),
                (with_first(metadata={"q": 5}), f"{path.name} is not a version: metadata is not text"),
                ({"files": head["files"]}, f"{path.name} is not a version: 'index'"),
                (5, f"{path.name} is not a version: 'int' object is not subscriptable"),
                ({**head, "files": []}, f"{path.name} is not a version: 'list' object has no attribute 'items'")):
            path.write_bytes(_bundles.pack([json.dumps(changed).encode(), *frames]))
            check_sentences(self, (lambda: slime.receive(str(self.folder / "engine"), 1), CorruptError, sentence))
        self.assertEqual(list((self.folder / "engine").glob("*/*.json")), [])


@needs("skyrl", "safetensors", "zstandard")
class SkyRL(unittest.TestCase):
    def test_what_is_published_is_fetched(self):
        import threelc.plugs.skyrl as plug
        from safetensors.torch import save_file
        from skyrl.backends.skyrl_train.weight_sync.delta import checkpoint

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        at = {name: Path(folder.name, name) for name in ("base", "link", "stage", "server")}
        at["base"].mkdir()
        now = {each.name: torch.zeros(each.shape, dtype=torch.bfloat16) for each in two()}
        save_file(now, at["base"] / "model.safetensors")
        (at["base"] / "config.json").write_text('{"model_type": "qwen2"}')
        plug.install(checkpoint)
        publisher = checkpoint.DeltaCheckpointPublisher(
            base_model_path=str(at["base"]), sync_dir=str(at["link"]), publish_staging_dir=str(at["stage"]))
        store = checkpoint.LocalCheckpointStore(base_model_path=str(at["base"]), local_checkpoint_dir=str(at["server"]))
        for version in 1, 2:
            for each in two():
                now[each.name].view(-1)[each.positions] = version * each.values
            told = publisher.publish([publisher.create_delta_files(now.items())])
            store.fetch(target_version=told["target_version"], sync_dir=told["sync_dir"])
            store.validate_ready(version)
            came = dict(checkpoint.CheckpointIndex(store._current_checkpoint_dir()).iter_tensors())
            for name, tensor in now.items():
                self.assertEqual(bits(came[name].flatten()), bits(tensor.flatten()))


if __name__ == "__main__":
    unittest.main()
