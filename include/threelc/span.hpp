/* SPDX-License-Identifier: MIT
 *
 * C++17: spans of elements, bytes and values, which are made of anything that std::data and std::size take: containers,
 * arrays, std::span of C++20.
 */
#ifndef THREELC_SPAN_HPP
#define THREELC_SPAN_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>
#include <threelc/threelc.h>

namespace threelc
{

/* The dtype of a type of C++, and how many values one has (2 of 4 bits). Programs may specialise it for halves of their
 * own: template <> struct threelc::dtype_of<half> : threelc::is_dtype<TLC_F16> {}; */
template <tlc_dtype Dtype, std::size_t Values = 1> struct is_dtype {
    static constexpr tlc_dtype dtype = Dtype;
    static constexpr std::size_t values = Values;
};
template <class T> struct dtype_of;
/* clang-format off */
template <> struct dtype_of<float> : is_dtype<TLC_F32> {};
template <> struct dtype_of<double> : is_dtype<TLC_F64> {};
template <> struct dtype_of<std::int32_t> : is_dtype<TLC_I32> {};
template <> struct dtype_of<std::int64_t> : is_dtype<TLC_I64> {};
template <> struct dtype_of<std::uint8_t> : is_dtype<TLC_U8> {};
/* clang-format on */

/* The bits of values that have no type in C++17. */
template <class Bits, tlc_dtype Dtype> struct Raw {
    Bits bits;
};
using F16 = Raw<std::uint16_t, TLC_F16>;
using BF16 = Raw<std::uint16_t, TLC_BF16>;
using F8E4M3 = Raw<std::uint8_t, TLC_F8_E4M3>;
using F8E5M2 = Raw<std::uint8_t, TLC_F8_E5M2>;
using F4E2M1Pair = Raw<std::uint8_t, TLC_F4_E2M1>; /* two values, the first in the lower half */
using U4Pair = Raw<std::uint8_t, TLC_U4>;
template <class Bits, tlc_dtype Dtype>
struct dtype_of<Raw<Bits, Dtype>> : is_dtype<Dtype, Dtype == TLC_F4_E2M1 || Dtype == TLC_U4 ? 2 : 1> {
};

/* What std::data and std::size give for a container, a std::span or an array, with T as its elements. */
template <class C> using element_of = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;

/* size elements at data. From anything that std::data and std::size take. */
template <class T> class Span
{
  public:
    constexpr Span() noexcept = default;
    constexpr Span(T *at, std::size_t elements) noexcept : first(at), count(elements)
    {
    }
    template <class C, class = std::enable_if_t<std::is_convertible_v<element_of<C> (*)[], T (*)[]>>>
    constexpr Span(C &&from) noexcept : first(std::data(from)), count(std::size(from))
    {
    }
    constexpr T *data() const noexcept
    {
        return first;
    }
    constexpr std::size_t size() const noexcept
    {
        return count;
    }
    constexpr bool empty() const noexcept
    {
        return count == 0;
    }
    constexpr T &operator[](std::size_t i) const noexcept
    {
        return first[i];
    }
    constexpr T *begin() const noexcept
    {
        return first;
    }
    constexpr T *end() const noexcept
    {
        return first + count;
    }

  private:
    T *first = nullptr;
    std::size_t count = 0;
};

/* Bytes: frames, states, messages. Void is void or const void. From any container of single bytes. */
template <class Void> class BasicBytes
{
  public:
    using Byte = std::conditional_t<std::is_const_v<Void>, const unsigned char, unsigned char>;
    BasicBytes() noexcept = default;
    BasicBytes(Void *at, std::size_t bytes) noexcept : first(static_cast<Byte *>(at)), count(bytes)
    {
    }
    template <class C, class E = element_of<C>,
              class = std::enable_if_t<sizeof(E) == 1 && std::is_trivially_copyable_v<E> &&
                                       std::is_convertible_v<E *, Void *>>>
    BasicBytes(C &&from) noexcept : BasicBytes(static_cast<Void *>(std::data(from)), std::size(from))
    {
    }
    BasicBytes(const tlc_message &message) noexcept : BasicBytes(message.data, message.len)
    {
    }
    operator tlc_message() const noexcept
    {
        return {first, count};
    }
    Byte *data() const noexcept
    {
        return first;
    }
    std::size_t size() const noexcept
    {
        return count;
    }
    bool empty() const noexcept
    {
        return count == 0;
    }
    Byte *begin() const noexcept
    {
        return first;
    }
    Byte *end() const noexcept
    {
        return first + count;
    }

  private:
    Byte *first = nullptr;
    std::size_t count = 0;
};
using Bytes = BasicBytes<const void>;
using MutableBytes = BasicBytes<void>;

/* n values of a dtype. From any container of a type that has a dtype. */
template <class Void> struct BasicValues {
    template <class C, class E = element_of<C>, class D = dtype_of<std::remove_const_t<E>>, tlc_dtype = D::dtype,
              class = std::enable_if_t<std::is_convertible_v<E *, Void *>>>
    BasicValues(C &&from) noexcept : data(std::data(from)), n(std::size(from) * D::values), dtype(D::dtype)
    {
    }
    BasicValues(Void *at, std::size_t values, tlc_dtype type) noexcept : data(at), n(values), dtype(type)
    {
    }
    Void *data;
    std::size_t n;
    tlc_dtype dtype;
};
using Values = BasicValues<const void>;
using MutableValues = BasicValues<void>;

} // namespace threelc
#endif
