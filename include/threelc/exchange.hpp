/* SPDX-License-Identifier: MIT
 *
 * C++17 over threelc/exchange.h: workers, servers and all-reduce, without I/O. threelc.hpp says how calls fail; here
 * the sentence is that of the outcome.
 *
 * Messages that an object made are views of its memory, valid as exchange.h says. So are messages that it takes: those
 * of Server::push, and of AllReduce::average, stay as they are until the answer.
 */
#ifndef THREELC_EXCHANGE_HPP
#define THREELC_EXCHANGE_HPP

#include <threelc/exchange.h>
#include <threelc/threelc.hpp>

namespace threelc
{

/* clang-format off */
template <> struct init_of<tlc_tensor> : is_init<tlc_tensor_init> {};
template <> struct init_of<tlc_outcome> : is_init<tlc_outcome_init> {};
template <> struct init_of<tlc_exchange_config> : is_init<tlc_exchange_config_init> {};
template <> struct init_of<tlc_exchange_stats> : is_init<tlc_exchange_stats_init> {};
template <> struct init_of<tlc_part> : is_init<tlc_part_init> {};
template <> struct init_of<tlc_push_info> : is_init<tlc_push_info_init> {};
/* clang-format on */

/* A tensor with the codecs of the configuration. The name must live until the object is made. */
inline tlc_tensor tensor(const char *name, std::size_t n)
{
    tlc_tensor made = init<tlc_tensor>();
    made.name = name;
    made.n = n;
    return made;
}

/* What all objects have. Self: a class with outcome(); T: the object of C; then its functions. */
template <class Self, class T, auto Destroy, auto Step, auto MessageBound, auto Stats, auto StateSize, auto StateSave,
          auto StateLoad, auto StateSalvage>
class Object
{
  public:
    T *get() const noexcept
    {
        return object.get();
    }
    std::uint64_t step() const noexcept
    {
        return Step(get());
    }

    /* A receiver refuses a longer message before it takes memory for it. */
    std::size_t message_bound() const noexcept
    {
        return MessageBound(get());
    }

    tlc_exchange_stats stats() const
    {
        tlc_exchange_stats made = init<tlc_exchange_stats>();
        done(Stats(get(), &made));
        return made;
    }

    std::vector<unsigned char> state() const
    {
        std::vector<unsigned char> made(StateSize(get()));
        std::size_t written = 0;
        done(StateSave(get(), made.data(), made.size(), &written));
        made.resize(written);
        return made;
    }
    void load_state(Span<const tlc_message> states)
    {
        done(StateLoad(get(), states.data(), states.size()));
    }
    void salvage_state(Span<const tlc_message> states)
    {
        done(StateSalvage(get(), states.data(), states.size()));
    }

    /* What creation said though it succeeded: an all-reduce whose pull starves, and a codec that keeps up. Or "". */
    const std::string &warning() const noexcept
    {
        return said;
    }

  protected:
    /* create(out, config) makes the object of tensors. */
    template <class Create>
    Object(tlc_exchange_config config, Span<const tlc_tensor> tensors, Run run, Create create)
        : threads(std::make_unique<Parallel>(std::move(run))), dtype(config.dtype)
    {
        tlc_outcome outcome = init<tlc_outcome>();
        T *made = nullptr;
        threads->set(config.parallel);
        config.outcome = &outcome;
        for (const tlc_tensor &one : tensors)
            sizes.push_back(one.n);
        check(create(&made, &config), outcome.sentence);
        object.reset(made);
        said = outcome.sentence;
    }

    void done(tlc_status status) const
    {
        threads->rethrow();
        if (status)
            throw Error(status, static_cast<const Self *>(this)->failure());
    }

    /* A pointer for each tensor. An empty one is NULL if it may be. */
    template <class Void> std::vector<Void *> pointers(Span<const BasicValues<Void>> all, bool may_be_empty) const
    {
        std::vector<Void *> made;
        require(all.size() == sizes.size(), "there are not as many arrays as tensors");
        for (std::size_t t = 0; t < all.size(); t++) {
            const bool empty = may_be_empty && !all[t].n;
            require(empty || (all[t].n == sizes[t] && all[t].dtype == dtype), "an array has another n or dtype");
            made.push_back(empty ? nullptr : all[t].data);
        }
        return made;
    }

    std::vector<float *> momentum_of(Span<const Span<float>> all) const
    {
        std::vector<float *> made;
        require(all.size() == sizes.size(), "there are not as many arrays as tensors");
        for (std::size_t t = 0; t < all.size(); t++) {
            require(all[t].empty() || all[t].size() == sizes[t], "an array of momentum has another n");
            made.push_back(all[t].empty() ? nullptr : all[t].data());
        }
        return made;
    }

    /* Arrays of so many floats each. */
    template <class Sizes> static std::vector<const float *> floats(Span<const Span<const float>> all, const Sizes &n)
    {
        std::vector<const float *> made;
        require(all.size() == n.size(), "there is another number of arrays than that of tensors or parts");
        for (std::size_t i = 0; i < all.size(); i++) {
            require(all[i].size() == n[i], "an array of floats has another n");
            made.push_back(all[i].data());
        }
        return made;
    }

    const tlc_message *messages(Span<const tlc_message> all, std::size_t count) const
    {
        require(all.size() == count, "there is another number of messages than that of machines");
        return all.data();
    }

    std::vector<std::size_t> sizes;

  private:
    std::unique_ptr<Parallel> threads;
    std::unique_ptr<T, Freed<Destroy>> object;
    std::string said;
    tlc_dtype dtype;
};

/* Pushes gradients, pulls answers: tlc_worker. */
class Worker
    : public Object<Worker, tlc_worker, tlc_worker_destroy, tlc_worker_step, tlc_worker_message_bound, tlc_worker_stats,
                    tlc_worker_state_size, tlc_worker_state_save, tlc_worker_state_load, tlc_worker_state_salvage>
{
  public:
    Worker(const tlc_exchange_config &config, std::uint32_t worker, Span<const tlc_tensor> tensors, Run run = {})
        : Object(config, tensors, std::move(run),
                 [&](tlc_worker **out, const tlc_exchange_config *c) {
                     return tlc_worker_create(out, c, worker, tensors.data(), tensors.size());
                 }),
          to(config.servers)
    {
    }

    /* A message for each server. An empty array: the tensor is another worker's. */
    Span<const tlc_message> push(Span<const Values> grads, double weight = 1)
    {
        done(tlc_worker_push(get(), pointers(grads, true).data(), weight, to.data()));
        return to;
    }
    /* The messages of a worker that is not in the round. */
    Span<const tlc_message> push_nothing()
    {
        done(tlc_worker_push(get(), nullptr, 1, to.data()));
        return to;
    }
    void pull(Span<const tlc_message> from, Span<const MutableValues> out)
    {
        done(tlc_worker_pull(get(), messages(from, to.size()), pointers(out, false).data()));
    }
    void mask(Span<const Span<float>> momentum)
    {
        done(tlc_worker_mask(get(), momentum_of(momentum).data()));
    }
    /* taken: one for each server, or empty: the last push counts as taken. */
    void join(std::uint64_t step, Span<const std::uint64_t> taken = {})
    {
        require(taken.empty() || taken.size() == to.size(), "there is not a step for each server");
        done(tlc_worker_join(get(), step, taken.empty() ? nullptr : taken.data()));
    }
    void set_codec(std::size_t tensor, const std::string &codec)
    {
        done(tlc_worker_set_codec(get(), tensor, codec.c_str()));
    }
    void residual_scale(float factor)
    {
        done(tlc_worker_residual_scale(get(), factor));
    }
    std::uint64_t history() const noexcept
    {
        return tlc_worker_history(get());
    }
    tlc_outcome outcome(std::uint32_t server = 0) const
    {
        tlc_outcome made = init<tlc_outcome>();
        check(tlc_worker_outcome(get(), server, &made), "there is no such server");
        return made;
    }
    /* The sentence of the server that the last call failed for. */
    std::string failure() const
    {
        for (std::uint32_t server = 0; server < to.size(); server++)
            if (outcome(server).status)
                return outcome(server).sentence;
        return outcome().sentence;
    }

  private:
    std::vector<tlc_message> to;
};

/* The parts of an owner. */
template <class T, auto Count, auto Part> std::vector<tlc_part> parts_of(const T *object)
{
    std::vector<tlc_part> made(Count(object), init<tlc_part>());
    for (std::size_t i = 0; i < made.size(); i++)
        check(Part(object, i, &made[i]), "");
    return made;
}

inline std::vector<std::size_t> sizes_of(const std::vector<tlc_part> &parts)
{
    std::vector<std::size_t> made;
    for (const tlc_part &part : parts)
        made.push_back(part.n);
    return made;
}

/* Averages what workers push, and answers: tlc_server. */
class Server
    : public Object<Server, tlc_server, tlc_server_destroy, tlc_server_step, tlc_server_message_bound, tlc_server_stats,
                    tlc_server_state_size, tlc_server_state_save, tlc_server_state_load, tlc_server_state_salvage>
{
  public:
    Server(const tlc_exchange_config &config, std::uint32_t server, Span<const tlc_tensor> tensors, Run run = {})
        : Object(config, tensors, std::move(run), [&](tlc_server **out, const tlc_exchange_config *c) {
              return tlc_server_create(out, c, server, tensors.data(), tensors.size());
          })
    {
    }

    /* The bytes stay as they are until answer(), unless they are late or repeated. */
    tlc_push_info push(Bytes from)
    {
        tlc_push_info info = init<tlc_push_info>();
        done(tlc_server_push(get(), from, &info));
        return info;
    }
    bool ready() const noexcept
    {
        return tlc_server_ready(get()) != 0;
    }
    void reduce()
    {
        done(tlc_server_reduce(get()));
    }
    std::vector<tlc_part> parts() const
    {
        return parts_of<tlc_server, tlc_server_parts, tlc_server_part>(get());
    }

    Bytes answer()
    {
        tlc_message made{};
        done(tlc_server_answer(get(), nullptr, &made));
        return made;
    }
    /* deltas: the change of each part of the model. */
    Bytes answer(Span<const Span<const float>> deltas)
    {
        tlc_message made{};
        done(tlc_server_answer(get(), floats(deltas, sizes_of(parts())).data(), &made));
        return made;
    }
    Bytes again(std::uint64_t step) const
    {
        tlc_message made{};
        done(tlc_server_again(get(), step, &made));
        return made;
    }
    std::uint64_t taken(std::uint32_t worker) const
    {
        std::uint64_t step = 0;
        done(tlc_server_taken(get(), worker, &step));
        return step;
    }
    void set_codec(std::size_t tensor, const std::string &codec)
    {
        done(tlc_server_set_codec(get(), tensor, codec.c_str()));
    }
    void residual_scale(float factor)
    {
        done(tlc_server_residual_scale(get(), factor));
    }
    std::uint64_t history() const noexcept
    {
        return tlc_server_history(get());
    }
    tlc_outcome outcome() const
    {
        tlc_outcome made = init<tlc_outcome>();
        check(tlc_server_outcome(get(), &made), "");
        return made;
    }
    std::string failure() const
    {
        return outcome().sentence;
    }
};

/* A worker, and an owner of parts: tlc_allreduce. */
class AllReduce : public Object<AllReduce, tlc_allreduce, tlc_allreduce_destroy, tlc_allreduce_step,
                                tlc_allreduce_message_bound, tlc_allreduce_stats, tlc_allreduce_state_size,
                                tlc_allreduce_state_save, tlc_allreduce_state_load, tlc_allreduce_state_salvage>
{
  public:
    AllReduce(const tlc_exchange_config &config, std::uint32_t rank, Span<const tlc_tensor> tensors, Run run = {})
        : Object(config, tensors, std::move(run),
                 [&](tlc_allreduce **out, const tlc_exchange_config *c) {
                     return tlc_allreduce_create(out, c, rank, tensors.data(), tensors.size());
                 }),
          to(config.workers)
    {
    }

    /* A message for each rank, one's own too. */
    Span<const tlc_message> push(Span<const Values> grads, double weight = 1)
    {
        done(tlc_allreduce_push(get(), pointers(grads, true).data(), weight, to.data()));
        return to;
    }
    Bytes reduce(Span<const tlc_message> from)
    {
        tlc_message made{};
        done(tlc_allreduce_reduce(get(), messages(from, to.size()), &made));
        return made;
    }
    /* The messages stay as they are until answer(). */
    void average(Span<const tlc_message> from)
    {
        done(tlc_allreduce_average(get(), messages(from, to.size())));
    }
    Bytes answer()
    {
        tlc_message made{};
        done(tlc_allreduce_answer(get(), nullptr, &made));
        return made;
    }
    /* deltas: the change of each part of the model, which stay as they are until the step has ended. */
    Bytes answer(Span<const Span<const float>> deltas)
    {
        tlc_message made{};
        done(tlc_allreduce_answer(get(), floats(deltas, sizes_of(parts())).data(), &made));
        return made;
    }
    void pull(Span<const tlc_message> from, Span<const MutableValues> out)
    {
        done(tlc_allreduce_pull(get(), messages(from, to.size()), pointers(out, false).data()));
    }
    Bytes again(std::uint64_t step) const
    {
        tlc_message made{};
        done(tlc_allreduce_again(get(), step, &made));
        return made;
    }
    void cancel()
    {
        done(tlc_allreduce_cancel(get()));
    }
    std::vector<tlc_part> parts() const
    {
        return parts_of<tlc_allreduce, tlc_allreduce_parts, tlc_allreduce_part>(get());
    }
    void mask(Span<const Span<float>> momentum)
    {
        done(tlc_allreduce_mask(get(), momentum_of(momentum).data()));
    }
    /* A codec that is nullptr stays as it is. */
    void set_codec(std::size_t tensor, const char *push, const char *pull)
    {
        done(tlc_allreduce_set_codec(get(), tensor, push, pull));
    }
    void residual_scale(float factor)
    {
        done(tlc_allreduce_residual_scale(get(), factor));
    }
    std::uint64_t history() const noexcept
    {
        return tlc_allreduce_history(get());
    }
    tlc_outcome outcome() const
    {
        tlc_outcome made = init<tlc_outcome>();
        check(tlc_allreduce_outcome(get(), &made), "");
        return made;
    }
    std::string failure() const
    {
        return outcome().sentence;
    }

  private:
    std::vector<tlc_message> to;
};

} // namespace threelc
#endif
