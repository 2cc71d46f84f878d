# SPDX-License-Identifier: MIT
"""threelc.flower with Flower's own apps, messages and strategies: two clients in one process, messages as bytes."""
import logging
import unittest

import numpy as np

import threelc

try:
    import flwr
except ImportError:
    flwr, Grid = None, object
if flwr:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Message as Bytes
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg, FedAvgM
    from flwr.supercore.task_identity import TaskIdentity
    import threelc.flower
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # of the server, as its process sets them
    logging.getLogger("flwr").setLevel(logging.ERROR)

CODEC = "3lc-golomb"
SHAPE = (30, 20)


def carried(message):
    """A message that went over a wire."""
    return message_from_proto(Bytes.FromString(message_to_proto(message).SerializeToString()))


class Clients(Grid):
    """Sends messages to clients of this process."""

    def __init__(self, apps):
        self.apps = apps
        self.contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in apps}

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            replies.append(carried(self.apps[node](carried(message), self.contexts[node])))
            self.contexts[node] = context_from_proto(context_to_proto(self.contexts[node]))  # as clients keep it
        return replies

    def get_node_ids(self):
        return list(self.apps)

    def _absent(self, *arguments, **others):
        raise NotImplementedError

    run = property(_absent)
    set_run = create_message = get_nodes = push_messages = pull_messages = _absent


def data(node):
    """Of a linear model that all clients share, from different inputs."""
    draw = np.random.default_rng(node)
    x = draw.normal(size=(200, SHAPE[0])).astype("f4")
    return x, x @ np.random.default_rng(0).normal(size=SHAPE).astype("f4")


def learner(node, mods, steps, rate):
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        weights = message.content["arrays"]["weights"].numpy().copy()
        x, y = data(node)
        for _ in range(steps):
            weights -= rate * x.T @ (x @ weights - y) / len(x)
        return Message(RecordDict({"arrays": ArrayRecord({"weights": Array(weights)}),
                                   "metrics": MetricRecord({"num-examples": len(x)})}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        x, y = data(node)
        error = np.square(x @ message.content["arrays"]["weights"].numpy() - y).mean()
        return Message(RecordDict({"metrics": MetricRecord({"loss": float(error), "num-examples": len(x)})}),
                       reply_to=message)

    return app


def trained(strategy, mods, rounds=12, steps=3, rate=0.1):
    """The weights, and the loss of the last round. mods: of each client."""
    clients = Clients({node: learner(node, each, steps, rate) for node, each in zip((11, 12), mods)})
    result = strategy.start(clients, ArrayRecord({"weights": Array(np.zeros(SHAPE, "f4"))}), rounds)
    return result.arrays["weights"].numpy(), result.evaluate_metrics_clientapp[rounds]["loss"]


def residual(context):
    """Of the array "w"."""
    holder = threelc.Context(SHAPE[0] * SHAPE[1], CODEC)
    holder.load_state_dict({"version": 1, "state": context.state.config_records["threelc"]["w"]})
    return np.array(holder.residual).reshape(SHAPE)


def replied(received, arrays, codec=CODEC, context=None, message_type="train", **settings):
    """The arrays of a client's reply, with the mod."""
    app = ClientApp(mods=[threelc.flower.CompressMod(codec, min_numel=1, **settings)])

    def answer(message, context):
        return Message(RecordDict({"model": ArrayRecord({name: Array(a) for name, a in arrays.items()}),
                                   "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    app.train()(answer)
    app.query()(answer)
    message = Message(RecordDict({"arrays": ArrayRecord({name: Array(a) for name, a in received.items()}),
                                  "config": ConfigRecord()}), 7, message_type)
    return app(message, context or Context(1, 7, {}, RecordDict(), {})).content["model"]


def received(arrays, sent):
    """What the strategy makes of a client's arrays, if the server has sent these."""
    clients = Clients({7: None})
    strategy = threelc.flower.DecompressStrategy(FedAvg(min_train_nodes=1, min_available_nodes=1))
    message, = strategy.configure_train(1, ArrayRecord({name: Array(a) for name, a in sent.items()}), ConfigRecord(),
                                        clients)
    reply = Message(RecordDict({"arrays": ArrayRecord(dict(arrays)), "metrics": MetricRecord({"num-examples": 1})}),
                    reply_to=message)
    return strategy.aggregate_train(1, [carried(reply)])[0]


@unittest.skipUnless(flwr, "Flower (flwr 1.42) is not installed")
class Flower(unittest.TestCase):
    def test_rounds(self):
        """raw is training without the mod, up to rounding. 3lc-golomb learns as well in a tenth of the bytes."""
        plain, loss = trained(FedAvg(), [[], []])
        for codec, within in ("raw", 1e-5), (CODEC, 0.6):
            mod = threelc.flower.CompressMod(codec)
            strategy = threelc.flower.DecompressStrategy(FedAvg())
            weights, ours = trained(strategy, [[mod], [mod]])
            np.testing.assert_allclose(weights, plain, atol=within)
            self.assertLess(ours, within + 2 * loss)
        self.assertLess(10 * strategy.received_bytes, strategy.array_bytes)

    def test_strategies_and_clients_of_all_kinds(self):
        """A strategy with momentum; a client without the mod."""
        plain, _ = trained(FedAvgM(server_momentum=0.5), [[], []])
        weights, _ = trained(threelc.flower.DecompressStrategy(FedAvgM(server_momentum=0.5)),
                             [[threelc.flower.CompressMod("raw")], []])
        np.testing.assert_allclose(weights, plain, atol=1e-5)

    def test_nothing_is_lost(self):
        """What has arrived and the residual are the sum of all changes. Each client has residuals of its own."""
        draw = np.random.default_rng(5)
        zero, contexts = np.zeros(SHAPE, "f4"), [Context(1, 7, {}, RecordDict(), {}) for _ in range(2)]
        for factor, context in zip((1, 2), contexts):
            wanted, arrived = zero.copy(), zero.copy()
            rest = zero
            for _ in range(4):
                change = factor * draw.normal(size=SHAPE).astype("f4")
                wanted += change
                reply = replied({"w": zero}, {"w": rest + change}, context=context)
                arrived += received(reply, {"w": zero})["w"].numpy()
                rest = residual(context)
            self.assertGreater(np.abs(rest).max(), 0.1)
            np.testing.assert_allclose(arrived + rest, wanted, atol=1e-4)
        self.assertFalse(np.array_equal(*map(residual, contexts)))

    def test_error_reset(self):
        """A client trains on from the server's model plus its residual. If it replies with a whole array, that has the
        residual. What the server sent stays as it is, also in this process."""
        draw = np.random.default_rng(10)
        first, zero = draw.normal(size=SHAPE).astype("f4"), np.zeros(SHAPE, "f4")
        for reset in True, False:
            given, context = [], Context(1, 7, {}, RecordDict(), {})
            mod = threelc.flower.CompressMod(CODEC, min_numel=1, error_reset=reset)
            message = Message(RecordDict({"arrays": ArrayRecord({"w": Array(zero)})}), 7, "train")
            for result in first, first.astype("f8"):
                def answer(message, context, result=result):
                    given.append(message.content["arrays"]["w"].numpy())
                    return Message(RecordDict({"model": ArrayRecord({"w": Array(result)})}), reply_to=message)
                rest = residual(context) if given else zero
                reply = mod(message, context, answer)
                np.testing.assert_array_equal(given[-1], rest if reset else zero)
                np.testing.assert_array_equal(message.content["arrays"]["w"].numpy(), zero)
            self.assertEqual(reply.content["model"]["w"].dtype, "float64")
            self.assertEqual(bool(np.any(residual(context))), not reset)

    def test_what_is_learned_twice(self):
        """Clients that make most of the way to their optimum in a round: with error feedback alone they diverge."""
        losses = []
        for reset in True, False:
            mod = threelc.flower.CompressMod(CODEC, error_reset=reset)
            losses.append(trained(threelc.flower.DecompressStrategy(FedAvg()), [[mod], [mod]], steps=30, rate=0.3)[1])
        self.assertLess(losses[0], 0.1)
        self.assertGreater(losses[1], 10)

    def test_residual_decay(self):
        zero, change, rest = np.zeros(SHAPE, "f4"), np.random.default_rng(9).normal(size=SHAPE).astype("f4"), []
        for decay in 1, 0.5:
            context = Context(1, 7, {}, RecordDict(), {})
            replied({"w": zero}, {"w": change}, context=context, residual_decay=decay)
            rest.append(residual(context))
        np.testing.assert_array_equal(rest[1], 0.5 * rest[0])
        for name in "residual_decay", "error_reset":
            with self.assertRaisesRegex(ValueError, f"{name} should be from 0 to 1, not 2"):
                threelc.flower.CompressMod(**{name: 2})

    def test_shapes_and_dtypes(self):
        draw = np.random.default_rng(6)
        arrays = {"scalar": np.array(3.5, "f4"), "one": np.ones(1, "f4"), "cube": draw.normal(size=(3, 4, 5)),
                  "half": draw.normal(size=(7, 3)).astype("f2"), "order": np.asfortranarray(draw.normal(size=(4, 9))),
                  "int": np.arange(6).reshape(2, 3), "bool": np.array([True, False]), "complex": np.ones(3, "c8"),
                  "empty": np.zeros((0, 4), "f4"), "new": np.ones(5, "f4"), "other": np.ones((2, 2), "f4")}
        sent = {name: np.array(np.zeros_like(a)) for name, a in arrays.items() if name not in ("new", "other")}
        sent["other"] = np.zeros(4, "f4")
        reply = replied(sent, arrays, "raw")
        self.assertEqual({name for name, a in reply.items() if a.stype == threelc.flower.STYPE},
                         {"scalar", "one", "cube", "half", "order"})
        strategy = threelc.flower.DecompressStrategy(None)
        strategy._sent = {7: {name: Array(a) for name, a in sent.items()}}
        message = Message(RecordDict({"arrays": reply}), reply_to=Message(RecordDict(), 7, "train"))
        strategy._decompress(message)
        for name, a in message.content["arrays"].items():
            self.assertEqual((a.dtype, a.shape), (str(arrays[name].dtype), arrays[name].shape))
            np.testing.assert_allclose(a.numpy(), arrays[name], rtol=1e-6)

    def test_damaged_frames(self):
        """Are refused, with the names of client and array."""
        sent = {"w": np.zeros(SHAPE, "f4"), "v": np.zeros(5, "f4")}
        frame = replied(sent, {"w": np.random.default_rng(7).normal(size=SHAPE).astype("f4")})["w"]

        def refused(kind, **changed):
            name = changed.pop("name", "w")
            whole = {"dtype": frame.dtype, "shape": frame.shape, "stype": frame.stype, "data": frame.data, **changed}
            with self.assertRaisesRegex(kind, f"^node 7: {name}: "):
                received({name: Array(**whole)}, sent)

        for at in range(0, len(frame.data), 7):
            bits = bytearray(frame.data)
            bits[at] ^= 1 << at % 8
            refused((threelc.CorruptError, threelc.SizeError), data=bytes(bits))
            refused(threelc.CorruptError, data=frame.data[:at])
        refused(ValueError, shape=(20, 30))
        refused(ValueError, dtype="float64")
        refused(threelc.SizeError, name="v", shape=(5,))
        refused(ValueError, name="u")
        received({"w": frame}, sent)

    def test_a_nan_changes_no_residual(self):
        zero, good = np.zeros(SHAPE, "f4"), np.random.default_rng(8).normal(size=SHAPE).astype("f4")
        context = Context(1, 7, {}, RecordDict(), {})
        replied({"v": zero, "w": zero}, {"v": good, "w": good}, context=context)
        before = dict(context.state.config_records["threelc"])
        with self.assertRaisesRegex(Exception, "w: .*NaN"):
            replied({"v": zero, "w": zero}, {"v": good, "w": good * np.nan}, context=context)
        self.assertEqual(before, dict(context.state.config_records["threelc"]))

    def test_other_messages(self):
        """Are left alone, and what cannot be compressed is refused."""
        zero = np.zeros(SHAPE, "f4")
        self.assertEqual(replied({"w": zero}, {"w": zero}, message_type=MessageType.QUERY)["w"].stype, "numpy.ndarray")
        self.assertEqual(replied({"w": zero}, {"w": zero}, message_type="train")["w"].stype, threelc.flower.STYPE)
        mod = threelc.flower.CompressMod()
        two = Message(RecordDict({"a": ArrayRecord(), "b": ArrayRecord()}), 7, "train")
        with self.assertRaisesRegex(ValueError, "2 ArrayRecords"):
            mod(two, Context(1, 7, {}, RecordDict(), {}), None)
        with self.assertRaises(threelc.ParameterError):
            threelc.flower.CompressMod("3lc-gollum")
