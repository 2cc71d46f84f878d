/* SPDX-License-Identifier: MIT
 *
 * C++17 over threelc/gossip.h: nodes of decentralised training, without I/O. What exchange.hpp says holds here, too.
 */
#ifndef THREELC_GOSSIP_HPP
#define THREELC_GOSSIP_HPP

#include <threelc/exchange.hpp>
#include <threelc/gossip.h>

namespace threelc
{

/* clang-format off */
template <> struct init_of<tlc_graph> : is_init<tlc_graph_init> {};
/* clang-format on */

/* The neighbours of a node, and the weights of their models; the node's own comes last. */
struct Neighbours {
    std::vector<std::uint32_t> nodes;
    std::vector<double> weights;
};

inline Neighbours neighbours(const tlc_graph &graph, std::uint32_t node)
{
    std::size_t degree = 0;
    double own = 0;
    const tlc_status none = tlc_graph_neighbours(&graph, node, nullptr, &own, 0, &degree);
    check(none == TLC_ERR_CAPACITY ? TLC_OK : none, "a bad field of the graph, or no such node");
    Neighbours made{std::vector<std::uint32_t>(degree), std::vector<double>(degree + 1)};
    check(tlc_graph_neighbours(&graph, node, made.nodes.data(), made.weights.data(), degree, &degree), "");
    return made;
}

/* A node of decentralised training: tlc_gossip. */
class Gossip
    : public Object<Gossip, tlc_gossip, tlc_gossip_destroy, tlc_gossip_step, tlc_gossip_message_bound, tlc_gossip_stats,
                    tlc_gossip_state_size, tlc_gossip_state_save, tlc_gossip_state_load, tlc_gossip_state_salvage>
{
  public:
    /* model: the values of each tensor to start with. */
    Gossip(const tlc_exchange_config &config, tlc_gossip_kind kind, std::uint32_t node, const Neighbours &edges,
           Span<const tlc_tensor> tensors, Span<const Span<const float>> model, Run run = {})
        : Object(config, tensors, std::move(run),
                 [&](tlc_gossip **out, const tlc_exchange_config *c) {
                     std::vector<std::size_t> n;
                     for (const tlc_tensor &one : tensors)
                         n.push_back(one.n);
                     require(edges.weights.size() == edges.nodes.size() + 1, "there is not a weight for each node");
                     return tlc_gossip_create(out, c, kind, node, edges.nodes.data(), edges.weights.data(),
                                              edges.nodes.size(), tensors.data(), tensors.size(),
                                              floats(model, n).data());
                 }),
          degree(edges.nodes.size())
    {
    }

    Bytes hello(bool full = false)
    {
        tlc_message made{};
        done(tlc_gossip_hello(get(), full, &made));
        return made;
    }
    void greet(Span<const tlc_message> from)
    {
        done(tlc_gossip_greet(get(), messages(from, degree)));
    }
    /* Empty where the C functions return NULL. */
    Span<const float> mean(std::size_t tensor) const
    {
        return view(tlc_gossip_mean(get(), tensor), tensor);
    }
    Span<const float> model(std::size_t tensor) const
    {
        return view(tlc_gossip_model(get(), tensor), tensor);
    }
    Bytes push(Span<const Span<const float>> moved)
    {
        tlc_message made{};
        done(tlc_gossip_push(get(), floats(moved, sizes).data(), &made));
        return made;
    }
    void pull(Span<const tlc_message> from)
    {
        done(tlc_gossip_pull(get(), messages(from, degree)));
    }
    Bytes again(std::uint64_t step) const
    {
        tlc_message made{};
        done(tlc_gossip_again(get(), step, &made));
        return made;
    }
    void lose(std::size_t i)
    {
        done(tlc_gossip_lose(get(), i));
    }
    bool lost(std::size_t i) const noexcept
    {
        return tlc_gossip_lost(get(), i) != 0;
    }
    /* From its own model. */
    void join(std::uint64_t step)
    {
        done(tlc_gossip_join(get(), step, nullptr));
    }
    void join(std::uint64_t step, Span<const Span<const float>> model)
    {
        done(tlc_gossip_join(get(), step, floats(model, sizes).data()));
    }
    void set_codec(std::size_t tensor, const std::string &codec)
    {
        done(tlc_gossip_set_codec(get(), tensor, codec.c_str()));
    }
    tlc_outcome outcome() const
    {
        tlc_outcome made = init<tlc_outcome>();
        check(tlc_gossip_outcome(get(), &made), "");
        return made;
    }
    std::string failure() const
    {
        return outcome().sentence;
    }

  private:
    Span<const float> view(const float *at, std::size_t tensor) const
    {
        return {at, at ? sizes[tensor] : 0};
    }

    std::size_t degree;
};

} // namespace threelc
#endif
