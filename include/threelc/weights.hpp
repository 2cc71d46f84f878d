/* SPDX-License-Identifier: MIT
 *
 * C++17 over threelc/weights.h: messages that take a whole model from one state to another. threelc.hpp says how calls
 * fail. What a callback throws comes out of the call that needed it.
 */
#ifndef THREELC_WEIGHTS_HPP
#define THREELC_WEIGHTS_HPP

#include <threelc/delta.hpp>
#include <threelc/weights.h>

namespace threelc
{

/* clang-format off */
template <> struct init_of<tlc_weights_entry> : is_init<tlc_weights_entry_init> {};
template <> struct init_of<tlc_weights_writer_config> : is_init<tlc_weights_writer_config_init> {};
template <> struct init_of<tlc_weights_reader_config> : is_init<tlc_weights_reader_config_init> {};
template <> struct init_of<tlc_weights_info> : is_init<tlc_weights_info_init> {};
/* clang-format on */

/* A function of the caller's, behind a callback of C that returns 0, or 1 if it threw. */
template <class Signature> struct Callback {
    std::function<Signature> function;
    std::exception_ptr thrown;

    template <class... Args> int call(Args &&...args) noexcept
    {
        try {
            function(std::forward<Args>(args)...);
            return 0;
        } catch (...) {
            thrown = std::current_exception();
            return 1;
        }
    }
    void rethrow()
    {
        if (thrown)
            std::rethrow_exception(std::exchange(thrown, nullptr));
    }
};

/* Writes a message: tlc_weights_writer. */
class WeightsWriter
{
  public:
    /* write: takes the next bytes of the message. */
    WeightsWriter(tlc_weights_writer_config config, std::function<void(Bytes)> write) : kept(std::make_unique<Kept>())
    {
        tlc_weights_writer *made = nullptr;
        kept->write.function = std::move(write);
        config.write = [](void *opaque, const void *src, size_t len) {
            return static_cast<Kept *>(opaque)->write.call(Bytes(src, len));
        };
        config.opaque = kept.get();
        config.message = kept->sentence;
        config.message_cap = sizeof kept->sentence;
        done(tlc_weights_writer_create(&made, &config));
        writer.reset(made);
    }

    /* The next tensor, in the order of names. frame: empty for a view. */
    void add(const tlc_weights_entry &entry, Bytes frame)
    {
        done(tlc_weights_add(writer.get(), &entry, frame.empty() ? nullptr : frame.data(), frame.size()));
    }
    void finish()
    {
        done(tlc_weights_finish(writer.get()));
    }

  private:
    struct Kept {
        Callback<void(Bytes)> write;
        char sentence[TLC_MESSAGE_SIZE] = "";
    };
    void done(tlc_status status)
    {
        kept->write.rethrow();
        check(status, kept->sentence);
    }

    std::unique_ptr<Kept> kept;
    std::unique_ptr<tlc_weights_writer, Freed<tlc_weights_writer_destroy>> writer;
};

/* Reads a message, which may be any bytes: tlc_weights_reader. */
class WeightsReader
{
  public:
    /* Fills dst with the bytes of the message from offset on. */
    using Read = std::function<void(std::uint64_t offset, MutableBytes dst)>;
    /* Fills place for an entry; called several times for each. */
    using Find = std::function<void(const tlc_weights_entry &entry, tlc_weights_place &place)>;

    /* Of a message in memory, which outlives the reader. */
    explicit WeightsReader(Bytes message, tlc_weights_reader_config config = init<tlc_weights_reader_config>(),
                           Run run = {})
        : kept(std::make_unique<Kept>(std::move(run)))
    {
        config.src = message.data();
        config.size = message.size();
        open(config);
    }
    /* Of size bytes that read has. */
    WeightsReader(std::uint64_t size, Read read, tlc_weights_reader_config config = init<tlc_weights_reader_config>(),
                  Run run = {})
        : kept(std::make_unique<Kept>(std::move(run)))
    {
        kept->read.function = std::move(read);
        config.read = [](void *opaque, std::uint64_t offset, void *dst, size_t len) {
            return static_cast<Kept *>(opaque)->read.call(offset, MutableBytes(dst, len));
        };
        config.opaque = kept.get();
        config.size = size;
        open(config);
    }

    tlc_weights_info info() const
    {
        tlc_weights_info made = init<tlc_weights_info>();
        check(tlc_weights_describe(reader.get(), &made), "");
        return made;
    }
    std::string note()
    {
        std::string made(static_cast<std::size_t>(info().note_len), '\0');
        done(tlc_weights_note(reader.get(), &made[0], made.size()));
        return made;
    }
    /* What it points to is valid until a call with another entry. */
    tlc_weights_entry at(std::uint64_t i)
    {
        tlc_weights_entry made = init<tlc_weights_entry>();
        done(tlc_weights_at(reader.get(), i, &made));
        return made;
    }
    /* dst: room for entry.frame_len bytes; it may be empty if the message is in memory. */
    Bytes frame(std::uint64_t i, MutableBytes dst = {})
    {
        const void *made = nullptr;
        const std::uint64_t len = at(i).frame_len;
        done(tlc_weights_frame(reader.get(), i, dst.data(), dst.size(), &made));
        return {made, static_cast<std::size_t>(len)};
    }
    /* All places or none. frame: as tlc_weights_apply. */
    void apply(Find find, MutableBytes frame = {})
    {
        Callback<void(const tlc_weights_entry &, tlc_weights_place &)> finder{std::move(find), nullptr};
        const tlc_status status = tlc_weights_apply(
            reader.get(),
            [](void *opaque, const tlc_weights_entry *entry, tlc_weights_place *place) {
                return static_cast<decltype(finder) *>(opaque)->call(*entry, *place);
            },
            &finder, frame.data(), frame.size());
        finder.rethrow();
        done(status);
    }

  private:
    struct Kept {
        explicit Kept(Run run) : threads(std::move(run))
        {
        }
        Callback<void(std::uint64_t, MutableBytes)> read;
        Parallel threads;
        char sentence[TLC_MESSAGE_SIZE] = "";
    };
    void open(tlc_weights_reader_config config)
    {
        tlc_weights_reader *made = nullptr;
        kept->threads.set(config.parallel);
        config.message = kept->sentence;
        config.message_cap = sizeof kept->sentence;
        done(tlc_weights_open(&made, &config));
        reader.reset(made);
    }
    void done(tlc_status status)
    {
        kept->read.rethrow();
        kept->threads.rethrow();
        check(status, kept->sentence);
    }

    std::unique_ptr<Kept> kept;
    std::unique_ptr<tlc_weights_reader, Freed<tlc_weights_close>> reader;
};

/* May a receiver that has taken `heard` take this message now? tlc_weights_follows. */
inline void check_follows(const tlc_weights_info &info, const tlc_weights_heard &heard)
{
    char sentence[TLC_MESSAGE_SIZE] = "";
    check(tlc_weights_follows(&info, &heard, sentence, sizeof sentence), sentence);
}

} // namespace threelc
#endif
