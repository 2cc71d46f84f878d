/* SPDX-License-Identifier: MIT
 *
 * C++17 over threelc/delta.h: lossless deltas of weights. threelc.hpp says how calls fail.
 */
#ifndef THREELC_DELTA_HPP
#define THREELC_DELTA_HPP

#include <threelc/delta.h>
#include <threelc/threelc.hpp>

namespace threelc
{

/* clang-format off */
template <> struct init_of<tlc_delta_options> : is_init<tlc_delta_options_init> {};
template <> struct init_of<tlc_delta_info> : is_init<tlc_delta_info_init> {};
/* clang-format on */

/* Makes deltas, and applies them. Threads may share one, if they may share its run. */
struct Delta {
    tlc_delta_options options = init<tlc_delta_options>();
    Run run;

    static std::size_t bound(tlc_dtype dtype, std::size_t n)
    {
        std::size_t bound = 0;
        check(tlc_delta_bound(dtype, n, &bound), "");
        return bound;
    }

    /* dst: at least bound() bytes. Returns the frame, which is their beginning. */
    Bytes compress(Values base, Values next, MutableBytes dst) const
    {
        require(base.n == next.n && base.dtype == next.dtype, "base and next have different n or dtype");
        return compress_at(base.data, next, dst);
    }
    /* The frame has all weights. */
    Bytes compress_full(Values next, MutableBytes dst) const
    {
        return compress_at(nullptr, next, dst);
    }

    void apply(Bytes frame, MutableValues weights) const
    {
        call(tlc_delta_apply, frame.data(), frame.size(), weights.dtype, weights.data, weights.n);
    }
    /* Of n weights those from `first` on that `part` has, in place. */
    void apply_range(Bytes frame, MutableValues part, std::size_t n, std::size_t first) const
    {
        call(tlc_delta_apply_range, frame.data(), frame.size(), part.dtype, part.data, part.data, n, first, part.n);
    }
    void check_frame(Bytes frame, Values weights) const
    {
        call(tlc_delta_check, frame.data(), frame.size(), weights.dtype, weights.data, weights.n);
    }
    void repair(Bytes frame, MutableValues weights) const
    {
        call(tlc_delta_repair, frame.data(), frame.size(), weights.dtype, weights.data, weights.n, nullptr);
    }
    /* dst: at least tlc_delta_fold_bound. */
    Bytes fold(Span<const Bytes> frames, MutableBytes dst) const
    {
        std::vector<const void *> at;
        std::vector<std::size_t> lens;
        std::size_t written = 0;
        for (const Bytes &frame : frames) {
            at.push_back(frame.data());
            lens.push_back(frame.size());
        }
        call(tlc_delta_fold, at.data(), lens.data(), lens.size(), dst.data(), dst.size(), &written);
        return {dst.data(), written};
    }
    /* first: of a part of the weights, its first one. */
    std::uint64_t digest(Values weights, std::uint64_t first = 0) const
    {
        std::uint64_t digest = 0;
        call(tlc_delta_digest_part, weights.dtype, weights.data, weights.n, first, &digest);
        return digest;
    }

    static tlc_delta_info inspect(Bytes frame)
    {
        return describe<tlc_delta_info>(tlc_delta_inspect, frame, TLC_FORMAT_DELTA);
    }
    static tlc_delta_info peek(Bytes frame)
    {
        return describe<tlc_delta_info>(tlc_delta_peek, frame, TLC_FORMAT_DELTA);
    }

  private:
    Bytes compress_at(const void *base, Values next, MutableBytes dst) const
    {
        std::size_t written = 0;
        call(tlc_delta_compress, next.dtype, base, next.data, next.n, dst.data(), dst.size(), &written);
        return {dst.data(), written};
    }
    template <class Function, class... Args> void call(Function function, Args... args) const
    {
        Call<tlc_delta_options> call(options, run);
        call.done(function(args..., call.c()));
    }
};

} // namespace threelc
#endif
