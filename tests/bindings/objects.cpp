/* SPDX-License-Identifier: MIT
 *
 * The C++ headers: every class once, what calls that fail say, what may be passed, and threads that throw.
 */
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#if __cplusplus >= 202002L
#include <span>
#endif
#include <threelc/delta.hpp>
#include <threelc/exchange.hpp>
#include <threelc/gossip.hpp>
#include <threelc/weights.hpp>

using namespace threelc;
using Buffer = std::vector<unsigned char>;

#define EXPECT(condition) expect(condition, #condition, __LINE__)
static void expect(bool ok, const char *what, int line)
{
    if (!ok) {
        std::fprintf(stderr, "objects.cpp:%d: %s\n", line, what);
        std::exit(1);
    }
}

/* The call throws an Error with this status, whose sentence has this word. */
template <class Call> static void fails(tlc_status status, const char *word, int line, Call call)
{
    try {
        call();
    } catch (const Error &error) {
        const bool fits = error.status() == status && std::strstr(error.what(), word);
        expect(fits, error.what(), line);
        return;
    }
    expect(false, "the call did not fail", line);
}
#define FAILS(status, word, ...) fails(status, word, __LINE__, [&] { (void)(__VA_ARGS__); })

static std::vector<float> gradient(std::size_t n, std::size_t seed)
{
    std::vector<float> made(n);
    for (std::size_t i = 0; i < n; i++)
        made[i] = float((i * 7 + seed * 3) % 101) / 100 - 0.5f;
    return made;
}

static Buffer copy(Bytes from)
{
    return Buffer(from.begin(), from.end());
}

/* ---- contexts and frames ----------------------------------------------------------------------------------------- */

/* A half of the program's own. */
struct Half {
    std::uint16_t bits;
};
template <> struct threelc::dtype_of<Half> : threelc::is_dtype<TLC_F16> {
};

static void contexts()
{
    constexpr std::size_t n = 1000;
    Context context(n);
    Buffer buffer(context.bound());
    std::vector<float> grad = gradient(n, 0), out(n), sum(n, 1);
    const Bytes frame = context.compress(grad, buffer);
    EXPECT(context.n() == n && frame.data() == buffer.data() && context.frame().size() == frame.size());
    EXPECT(context.isa() != TLC_ISA_AUTO);
    Decoder{}.decompress(frame, out);
    Decoder{}.add(frame, 2, sum);
    EXPECT(sum[0] == 1 + 2 * out[0] && out[0] + context.residual()[0] == grad[0]);

    Decoder from_zero;
    from_zero.options.from_zero = 1;
    const std::array<tlc_message, 2> frames = {frame, frame};
    from_zero.add_many(frames, std::array<float, 2>{1, 2}, sum);
    EXPECT(sum[0] == out[0] + 2 * out[0]);
    from_zero.mask(frame, sum);
    EXPECT(sum[0] == 0 || out[0] == 0);
    EXPECT(inspect(frame).n == n && peek(frame).nonzero == TLC_UNKNOWN && inspect(frame).nonzero > 0);

    const Buffer state = context.state();
    tlc_config halves = init<tlc_config>();
    halves.dtype = TLC_F16;
    halves.feedback = 1;
    Context other(n, halves);
    FAILS(TLC_ERR_PARAM, "f16", other.load_state(state));
    FAILS(TLC_ERR_PARAM, "dtype", other.compress(grad, buffer));
    const std::vector<Half> mine(n, Half{0x3c00});
    const std::vector<F16> theirs(n, F16{0x3c00});
    const Buffer first = copy(other.compress(mine, buffer));
    other.reset();
    EXPECT(first == copy(other.compress(theirs, buffer)));
    Context moved = std::move(context);
    moved.load_state(state);
    EXPECT(moved.state() == state);
    moved.set_codec("3lc:s=1.5");
    moved.accumulate(grad);
    moved.residual_scale(0.5f);
    EXPECT(!moved.compress_residual(buffer).empty());

    grad[17] = -1.0f / 0.0f;
    FAILS(TLC_ERR_NONFINITE, "value 17 of the gradient", moved.compress(grad, buffer));
    FAILS(TLC_ERR_CAPACITY, "tlc_bound", moved.compress(gradient(n, 1), Span<unsigned char>(buffer.data(), 1)));
    FAILS(TLC_ERR_PARAM, "another n", moved.compress(gradient(n + 1, 1), buffer));
    FAILS(TLC_ERR_CORRUPT, "", Decoder{}.decompress(std::string_view("\1"), out));
    FAILS(TLC_ERR_PARAM, "weight", Decoder{}.add_many(frames, std::array<float, 1>{1}, sum));
    FAILS(TLC_ERR_PARAM, "at 4", check_codec("3lc:x=1"));
    FAILS(TLC_ERR_PARAM, "at 4", codec_bound("3lc:x=1", TLC_F32, 1));
    FAILS(TLC_ERR_CORRUPT, "", inspect(Buffer(3)));
    halves.codec = "3lv";
    FAILS(TLC_ERR_PARAM, "3lv", Context(n, halves));
}

/* What spans are made of. */
static void spans()
{
    const auto count = [](Values values) { return values.n; };
    const auto bytes = [](Bytes some) { return some.size(); };
    float plain[3] = {1, 2, 3};
    const std::array<double, 2> array = {};
    EXPECT(count(plain) == 3 && count(array) == 2 && count(std::vector<U4Pair>(5)) == 10);
    EXPECT(bytes(std::string_view("abcd")) == 4 && bytes(std::vector<std::byte>(6)) == 6);
    EXPECT(Span<const float>(plain)[2] == 3 && Span<float>(plain).end() - plain == 3);
    static_assert(!std::is_convertible_v<const std::vector<float> &, Span<float>>, "const");
    static_assert(!std::is_convertible_v<const Buffer &, MutableBytes>, "const");
    static_assert(!std::is_convertible_v<std::vector<float> &, Bytes>, "not bytes");
    static_assert(!std::is_convertible_v<std::vector<std::string> &, Values>, "no dtype");
    static_assert(!std::is_copy_constructible_v<Context> && std::is_nothrow_move_constructible_v<Context>, "moves");
#if __cplusplus >= 202002L
    EXPECT(count(std::span<const float>(plain)) == 3 && Span<float>(std::span<float>(plain)).size() == 3);
#endif
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct Thrown {
};

static void threads()
{
    constexpr std::size_t n = 200000;
    tlc_config config = init<tlc_config>();
    config.codec = "3lc:block=4096";
    const std::vector<float> grad = gradient(n, 0);
    Context alone(n, config);
    Buffer buffer(alone.bound());
    const Buffer frame = copy(alone.compress(grad, buffer));
    std::atomic<int> calls{0};
    const Run twice = [&](std::size_t count, const std::function<bool()> &piece) {
        calls++;
        std::thread second([&] {
            for (std::size_t i = 0; i <= count; i++) /* all of it, and one more */
                piece();
        });
        piece();
        second.join();
    };
    EXPECT(copy(Context(n, config, twice).compress(grad, buffer)) == frame && calls > 0);

    const Run throws = [](std::size_t, const std::function<bool()> &piece) {
        piece();
        throw Thrown();
    };
    Context broken(n, config, throws);
    bool thrown = false;
    try {
        broken.compress(grad, buffer);
    } catch (const Thrown &) {
        thrown = true;
    }
    EXPECT(thrown && copy(broken.frame()) == frame && broken.state() == alone.state());
    std::vector<float> out(n), expected(n);
    Decoder{}.decompress(frame, expected);
    thrown = false;
    try {
        Decoder{init<tlc_decode_options>(), throws}.decompress(frame, out);
    } catch (const Thrown &) {
        thrown = true;
    }
    EXPECT(thrown && out == expected);
}

/* ---- deltas and messages of weights ------------------------------------------------------------------------------ */

static void deltas()
{
    constexpr std::size_t n = 1000;
    std::vector<BF16> base(n, BF16{0x3f80}), next = base, mine = base;
    next[700].bits++;
    Delta delta;
    delta.options.block_digests = 1;
    Buffer buffer(Delta::bound(TLC_BF16, n));
    const Bytes frame = delta.compress(base, next, buffer);
    delta.check_frame(frame, mine);
    delta.apply(frame, mine);
    EXPECT(mine[700].bits == 0x3f81 && delta.digest(mine) == Delta::inspect(frame).result_digest);
    EXPECT(Delta::peek(frame).n == n && Delta::inspect(frame).changed == 1);
    delta.repair(frame, mine);
    FAILS(TLC_ERR_BASE, "result", delta.apply(frame, mine));
    delta.apply_range(frame, Span<BF16>(base.data() + 600, 200), n, 600);
    EXPECT(base[700].bits == 0x3f81);
    FAILS(TLC_ERR_PARAM, "different", delta.compress(base, gradient(n, 0), buffer));
    FAILS(TLC_ERR_CORRUPT, "", Delta::inspect(Buffer(3)));

    const Buffer first = copy(frame);
    base = next;
    next[3].bits++;
    const Buffer second = copy(delta.compress(base, next, buffer));
    std::size_t bound = 0;
    check(tlc_delta_fold_bound(TLC_BF16, n, 2, &bound), "");
    Buffer room(bound);
    EXPECT(Delta::inspect(delta.fold(std::array<Bytes, 2>{first, second}, room)).changed == 2);
    EXPECT(!Delta::peek(delta.compress_full(next, buffer)).has_base);
}

static void weights()
{
    const std::map<std::string, std::vector<float>> model = {{"bias", gradient(10, 1)}, {"weight", gradient(1000, 2)}};
    Buffer message, buffer(Delta::bound(TLC_F32, 1000));
    tlc_weights_writer_config config = init<tlc_weights_writer_config>();
    config.count = model.size();
    config.sequence = 1;
    config.note = "a note";
    config.note_len = 6;
    WeightsWriter writer(config, [&](Bytes some) { message.insert(message.end(), some.begin(), some.end()); });
    for (const auto &[name, values] : model) {
        tlc_weights_entry entry = init<tlc_weights_entry>();
        const std::uint64_t shape = values.size();
        entry.name = name.c_str();
        entry.dtype = TLC_F32;
        entry.dims = 1;
        entry.shape = &shape;
        writer.add(entry, Delta{}.compress_full(values, buffer));
    }
    FAILS(TLC_ERR_ORDER, "", writer.add(init<tlc_weights_entry>(), Bytes()));
    writer.finish();

    WeightsReader in_memory(message);
    WeightsReader by_parts(message.size(), [&](std::uint64_t offset, MutableBytes dst) {
        std::memcpy(dst.data(), message.data() + offset, dst.size());
    });
    for (WeightsReader *reader : {&in_memory, &by_parts}) {
        EXPECT(reader->info().count == 2 && reader->note() == "a note" && reader->at(1).n == 1000);
        EXPECT(reader->frame(0, buffer).size() == reader->at(0).frame_len);
        std::map<std::string, std::vector<float>> mine = {{"bias", std::vector<float>(10)},
                                                          {"weight", std::vector<float>(1000)}};
        Buffer room(static_cast<std::size_t>(reader->info().frame_max));
        reader->apply(
            [&](const tlc_weights_entry &entry, tlc_weights_place &place) {
                std::vector<float> &values = mine.at(entry.name);
                place.base = place.out = values.data();
                place.count = values.size();
            },
            room);
        EXPECT(mine == model);
        bool thrown = false;
        try {
            reader->apply([](const tlc_weights_entry &, tlc_weights_place &) { throw Thrown(); }, room);
        } catch (const Thrown &) {
            thrown = true;
        }
        EXPECT(thrown);
    }
    check_follows(in_memory.info(), tlc_weights_heard{});
    tlc_weights_heard heard{};
    heard.sequence = 9;
    FAILS(TLC_ERR_ORDER, "", check_follows(in_memory.info(), heard));
    message[0] ^= 1;
    FAILS(TLC_ERR_CORRUPT, "", WeightsReader(message));
    FAILS(TLC_ERR_PARAM, "", WeightsWriter(init<tlc_weights_writer_config>(), nullptr));
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

static const std::array<tlc_tensor, 2> model_tensors = {tensor("weight", 1000), tensor("bias", 10)};

static void servers()
{
    tlc_exchange_config config = init<tlc_exchange_config>();
    config.workers = 2;
    config.servers = 1;
    Server server(config, 0, model_tensors);
    std::vector<Worker> workers;
    for (std::uint32_t i = 0; i < 2; i++)
        workers.emplace_back(config, i, model_tensors);
    std::vector<float> weight(1000), bias(10);
    const std::array<MutableValues, 2> out = {weight, bias};
    for (std::size_t step = 1; step <= 2; step++) {
        for (std::size_t i = 0; i < 2; i++) {
            const auto large = gradient(1000, step + i), small = gradient(10, step);
            const tlc_push_info info = server.push(workers[i].push(std::array<Values, 2>{large, small})[0]);
            EXPECT(info.worker == i && info.step == step && server.ready() == (i == 1));
        }
        FAILS(TLC_ERR_ORDER, "answer", server.answer());
        server.reduce();
        const std::vector<tlc_part> parts = server.parts();
        std::vector<std::vector<float>> halves;
        std::vector<Span<const float>> deltas;
        for (const tlc_part &part : parts)
            halves.emplace_back(part.mean, part.mean + part.n);
        for (const auto &half : halves)
            deltas.emplace_back(half);
        FAILS(TLC_ERR_PARAM, "number of arrays", server.answer(Span<const Span<const float>>()));
        const Bytes answer = step == 1 ? server.answer() : server.answer(deltas);
        EXPECT(server.again(step).data() == answer.data() && server.taken(1) == step);
        const Buffer damaged(answer.begin(), answer.begin() + 9);
        FAILS(TLC_ERR_CORRUPT, "server 0", workers[0].pull(std::array<tlc_message, 1>{Bytes(damaged)}, out));
        for (Worker &worker : workers)
            worker.pull(std::array<tlc_message, 1>{answer}, out);
        EXPECT(weight[0] != 0 || weight[1] != 0);
        workers[0].mask(std::array<Span<float>, 2>{weight, Span<float>()});
    }
    EXPECT(workers[0].history() == workers[1].history() && workers[0].history() == server.history());
    EXPECT(workers[0].message_bound() == tlc_worker_message_bound(workers[0].get()));
    EXPECT(server.message_bound() == tlc_server_message_bound(server.get()));
    EXPECT(workers[0].step() == 3 && workers[0].stats().steps == 2 && workers[0].outcome().status == TLC_OK);
    Worker again(config, 0, model_tensors);
    again.load_state(std::array<tlc_message, 1>{Bytes(workers[0].state())});
    EXPECT(again.state() == workers[0].state());
    EXPECT(!workers[0].push_nothing().empty());
    FAILS(TLC_ERR_PARAM, "array", again.push(std::array<Values, 1>{bias}));
    FAILS(TLC_ERR_PARAM, "another n", again.push(std::array<Values, 2>{bias, bias}));
    config.push = "3lv";
    FAILS(TLC_ERR_PARAM, "3lv", Worker(config, 0, model_tensors));
}

static void all_reduce()
{
    tlc_exchange_config config = init<tlc_exchange_config>();
    config.workers = 2;
    config.push = config.pull = "raw";
    std::vector<AllReduce> ranks;
    for (std::uint32_t i = 0; i < 2; i++)
        ranks.emplace_back(config, i, model_tensors);
    const auto a = gradient(1000, 1), b = gradient(1000, 2), bias = gradient(10, 0);
    std::vector<tlc_message> pushes[2], answers;
    for (std::size_t i = 0; i < 2; i++) {
        const Span<const tlc_message> to = ranks[i].push(std::array<Values, 2>{i ? b : a, bias});
        for (std::size_t j = 0; j < 2; j++)
            pushes[j].push_back(to[j]);
    }
    answers.push_back(ranks[0].reduce(pushes[0]));
    ranks[1].average(pushes[1]);
    answers.push_back(ranks[1].answer());
    for (AllReduce &rank : ranks) {
        std::vector<float> weight(1000), other(10);
        rank.pull(answers, std::array<MutableValues, 2>{weight, other});
        EXPECT(weight[3] == (a[3] + b[3]) / 2 && other == bias);
        EXPECT(rank.warning().empty() && rank.again(1).size() > 0);
    }
    EXPECT(ranks[0].message_bound() >= answers[1].len && ranks[0].message_bound() < 2 * answers[0].len);
    FAILS(TLC_ERR_ORDER, "reduce", ranks[0].reduce(pushes[0]));
    FAILS(TLC_ERR_PARAM, "messages", ranks[0].reduce(answers[0].len ? Span<const tlc_message>() : pushes[0]));
    FAILS(TLC_ERR_ORDER, "", ranks[0].cancel());
    config.push = config.pull = "sbc";
    EXPECT(AllReduce(config, 0, model_tensors).warning().find("3lc-golomb") != std::string::npos);
}

static void nodes()
{
    tlc_graph graph = init<tlc_graph>();
    graph.kind = TLC_GRAPH_COMPLETE;
    graph.nodes = 2;
    const Neighbours edges = neighbours(graph, 0);
    EXPECT(edges.nodes == std::vector<std::uint32_t>{1} && edges.weights.size() == 2);
    FAILS(TLC_ERR_PARAM, "no such node", neighbours(graph, 2));
    tlc_exchange_config config = init<tlc_exchange_config>();
    config.workers = 2;
    const std::vector<float> weight(1000), bias(10);
    const std::array<Span<const float>, 2> model = {weight, bias};
    Gossip first(config, TLC_GOSSIP_DCD, 0, edges, model_tensors, model);
    Gossip second(config, TLC_GOSSIP_DCD, 1, neighbours(graph, 1), model_tensors, model);
    first.greet(std::array<tlc_message, 1>{second.hello()});
    const auto moved = gradient(1000, 1), small = gradient(10, 1);
    const Bytes push = first.push(std::array<Span<const float>, 2>{moved, small});
    const Bytes other = second.push(model);
    EXPECT(first.mean(0).empty() && first.again(1).size() == push.size());
    EXPECT(first.message_bound() >= push.size() && first.message_bound() == tlc_gossip_message_bound(first.get()));
    first.pull(std::array<tlc_message, 1>{other});
    second.pull(std::array<tlc_message, 1>{push});
    EXPECT(first.mean(0)[1] == second.mean(0)[1] && first.model(0).size() == 1000 && second.model(0)[1] == 0);
    first.lose(0);
    EXPECT(first.lost(0) && !second.lost(0));
    first.join(5);
    EXPECT(first.step() == 5);
    FAILS(TLC_ERR_PARAM, "float", first.push(std::array<Span<const float>, 2>{moved, moved}));
}

int main()
{
    contexts();
    spans();
    threads();
    deltas();
    weights();
    servers();
    all_reduce();
    nodes();
    std::puts("8 groups of calls");
}
