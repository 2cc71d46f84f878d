/* SPDX-License-Identifier: MIT
 *
 * C++17 over the C headers: objects that free themselves, spans with sizes that are checked, and exceptions. Structs
 * are those of C; threelc::init<tlc_config>() makes one with its defaults, and the fields for messages and threads are
 * set here. delta.hpp, exchange.hpp, gossip.hpp and weights.hpp have the rest.
 *
 * A call that fails throws an Error with the status and the library's sentence, and changes nothing, as the comments of
 * the C functions say. A Run may throw: the library then completes its work, and the call throws that exception when it
 * has ended. Views of messages and frames are valid as long as the C header says. Objects can be moved, not copied.
 */
#ifndef THREELC_THREELC_HPP
#define THREELC_THREELC_HPP

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <threelc/span.hpp>
#include <threelc/threelc.h>

namespace threelc
{

/* ---- failure ----------------------------------------------------------------------------------------------------- */

/* A call that failed: what() is the library's sentence. */
class Error : public std::runtime_error
{
  public:
    Error(tlc_status status, const std::string &sentence)
        : std::runtime_error(sentence.empty() ? tlc_status_string(status) : sentence), kind(status)
    {
    }
    tlc_status status() const noexcept
    {
        return kind;
    }

  private:
    tlc_status kind;
};

inline void check(tlc_status status, const char *sentence)
{
    if (status)
        throw Error(status, sentence);
}

inline void require(bool ok, const char *sentence)
{
    check(ok ? TLC_OK : TLC_ERR_PARAM, sentence);
}

/* ---- structs ----------------------------------------------------------------------------------------------------- */

/* The _init of a struct, by its type. */
template <auto Init> struct is_init {
    template <class T> static tlc_status call(T *made) noexcept
    {
        return Init(made, sizeof *made);
    }
};
template <class T> struct init_of;
/* clang-format off */
template <> struct init_of<tlc_config> : is_init<tlc_config_init> {};
template <> struct init_of<tlc_decode_options> : is_init<tlc_decode_options_init> {};
template <> struct init_of<tlc_frame_info> : is_init<tlc_frame_info_init> {};
/* clang-format on */

/* A struct of C with its defaults. */
template <class T> T init()
{
    T made{};
    check(init_of<T>::call(&made), "");
    return made;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* The caller's threads. It calls piece() about count times, on any threads at once, and returns when all calls have
 * returned. Each call does one piece of the work; false: nothing was left. What is not done then is done on the calling
 * thread. The results are the same bytes. */
using Run = std::function<void(std::size_t count, const std::function<bool()> &piece)>;

/* A Run for C. It stays where it is while the library may call it. */
class Parallel
{
  public:
    explicit Parallel(Run threads) : run(std::move(threads))
    {
    }
    Parallel(const Parallel &) = delete;
    Parallel &operator=(const Parallel &) = delete;

    /* Without a run the field stays as it is. */
    void set(tlc_parallel &field) noexcept
    {
        if (run)
            field = {&Parallel::call, this};
    }

    /* Throws what the run of the last call threw. */
    void rethrow()
    {
        if (failed)
            std::rethrow_exception(std::exchange(failed, nullptr));
    }

  private:
    static void call(void *opaque, std::size_t count, void (*task)(void *arg, std::size_t i), void *arg)
    {
        Parallel &self = *static_cast<Parallel *>(opaque);
        std::atomic<std::size_t> next{0};
        const auto piece = [&]() noexcept {
            std::size_t i = next.load();
            while (i < count && !next.compare_exchange_weak(i, i + 1)) {
            }
            if (i >= count)
                return false;
            task(arg, i);
            return true;
        };
        try {
            if (!self.failed)
                self.run(count, piece);
        } catch (...) {
            self.failed = std::current_exception();
        }
        while (piece()) {
        }
    }

    Run run;
    std::exception_ptr failed;
};

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

/* Frees an object of C. */
template <auto Destroy> struct Freed {
    template <class T> void operator()(T *object) const noexcept
    {
        Destroy(object);
    }
};

/* Compresses one tensor, step after step, and keeps its residual: tlc_ctx. */
class Context
{
  public:
    /* As tlc_create. n: the values of the tensor. */
    explicit Context(std::size_t n, tlc_config config = init<tlc_config>(), Run run = {})
        : threads(std::make_unique<Parallel>(std::move(run))), dtype(config.dtype), count(n)
    {
        char sentence[TLC_MESSAGE_SIZE] = "";
        tlc_ctx *made = nullptr;
        threads->set(config.parallel);
        config.message = sentence;
        config.message_cap = sizeof sentence;
        check(tlc_create(&made, &config, n), sentence);
        ctx.reset(made);
    }

    tlc_ctx *get() const noexcept
    {
        return ctx.get();
    }
    std::size_t n() const noexcept
    {
        return count;
    }
    std::size_t bound() const noexcept
    {
        return tlc_bound(get());
    }
    tlc_isa isa() const noexcept
    {
        return tlc_isa_used(get());
    }

    void accumulate(Values grad)
    {
        fits(grad);
        done(tlc_accumulate(get(), grad.data));
    }

    /* dst: at least bound() bytes. Returns the frame, which is their beginning. */
    Bytes compress(Values grad, MutableBytes dst)
    {
        fits(grad);
        return compress_at(grad.data, dst);
    }
    Bytes compress_residual(MutableBytes dst)
    {
        return compress_at(nullptr, dst);
    }
    /* What the last call of these wrote, also where its run threw: the residual is without it. */
    Bytes frame() const noexcept
    {
        return last;
    }

    void set_codec(const std::string &codec)
    {
        done(tlc_set_codec(get(), codec.c_str()));
    }

    /* Empty without error feedback. */
    Span<float> residual() noexcept
    {
        float *at = tlc_residual(get());
        return {at, at ? count : 0};
    }
    void residual_scale(float factor)
    {
        done(tlc_residual_scale(get(), factor));
    }
    void reset() noexcept
    {
        tlc_reset(get());
    }

    std::vector<unsigned char> state() const
    {
        std::vector<unsigned char> state(tlc_state_size(get()));
        std::size_t written = 0;
        done(tlc_state_save(get(), state.data(), state.size(), &written));
        state.resize(written);
        return state;
    }
    void load_state(Bytes state)
    {
        done(tlc_state_load(get(), state.data(), state.size()));
    }

  private:
    void fits(const Values &grad) const
    {
        require(grad.dtype == dtype && grad.n == count, "the gradient has another n or dtype than the context");
    }
    Bytes compress_at(const void *grad, MutableBytes dst)
    {
        std::size_t written = 0;
        const tlc_status status = tlc_compress(get(), grad, dst.data(), dst.size(), &written);
        last = {dst.data(), written};
        done(status);
        return last;
    }
    void done(tlc_status status) const
    {
        threads->rethrow();
        check(status, tlc_last_error(get()));
    }

    std::unique_ptr<Parallel> threads;
    std::unique_ptr<tlc_ctx, Freed<tlc_destroy>> ctx;
    tlc_dtype dtype;
    std::size_t count;
    Bytes last;
};

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Options of C, with a sentence and threads, for one call. */
template <class Options> class Call
{
  public:
    Call(const Options &chosen, const Run &run) : threads(run), options(chosen)
    {
        threads.set(options.parallel);
        options.message = sentence;
        options.message_cap = sizeof sentence;
    }
    const Options *c() const noexcept
    {
        return &options;
    }
    void done(tlc_status status)
    {
        threads.rethrow();
        check(status, sentence);
    }

  private:
    char sentence[TLC_MESSAGE_SIZE] = "";
    Parallel threads;
    Options options;
};

/* Decodes frames, which may be any bytes. Threads may share one, if they may share its run. */
struct Decoder {
    tlc_decode_options options = init<tlc_decode_options>();
    Run run;

    void decompress(Bytes frame, MutableValues out) const
    {
        call(tlc_decompress, frame.data(), frame.size(), out.dtype, out.data, out.n);
    }
    void add(Bytes frame, float weight, Span<float> sum) const
    {
        call(tlc_decompress_add, frame.data(), frame.size(), weight, sum.data(), sum.size());
    }
    /* weights: one for each frame, or empty: all are 1. */
    void add_many(Span<const tlc_message> frames, Span<const float> weights, Span<float> sum) const
    {
        require(weights.empty() || weights.size() == frames.size(), "there is not a weight for each frame");
        call(tlc_decompress_add_many, frames.data(), weights.empty() ? nullptr : weights.data(), frames.size(),
             sum.data(), sum.size(), nullptr);
    }
    void mask(Bytes frame, Span<float> momentum) const
    {
        call(tlc_mask, frame.data(), frame.size(), momentum.data(), momentum.size());
    }

  private:
    template <class Function, class... Args> void call(Function function, Args... args) const
    {
        Call<tlc_decode_options> call(options, run);
        call.done(function(args..., call.c()));
    }
};

/* Why bytes are refused: tlc_explain. */
inline void explain(Bytes bytes, tlc_format format)
{
    char sentence[TLC_MESSAGE_SIZE] = "";
    check(tlc_explain(bytes.data(), bytes.size(), format, sentence, sizeof sentence), sentence);
}

template <class Info, class Function> Info describe(Function function, Bytes frame, tlc_format format)
{
    Info info = init<Info>();
    const tlc_status status = function(frame.data(), frame.size(), &info);
    if (status)
        explain(frame, format);
    check(status, "");
    return info;
}

inline tlc_frame_info inspect(Bytes frame)
{
    return describe<tlc_frame_info>(tlc_inspect, frame, TLC_FORMAT_FRAME);
}
inline tlc_frame_info peek(Bytes frame)
{
    return describe<tlc_frame_info>(tlc_peek, frame, TLC_FORMAT_FRAME);
}

/* Why a text is no codec: tlc_codec_check. */
inline void check_codec(const std::string &codec)
{
    char sentence[TLC_MESSAGE_SIZE] = "";
    check(tlc_codec_check(codec.c_str(), sentence, sizeof sentence), sentence);
}

inline std::size_t codec_bound(const std::string &codec, tlc_dtype dtype, std::size_t n)
{
    std::size_t bound = 0;
    check_codec(codec);
    check(tlc_codec_bound(codec.c_str(), dtype, n, &bound), "");
    return bound;
}

} // namespace threelc
#endif
