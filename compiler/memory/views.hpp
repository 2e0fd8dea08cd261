#pragma once
// Which values share their bytes, and how each is a window of them.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/memory/memory.hpp"

namespace kpu::compiler {

/// Strides with which a window shows its elements in another shape; nothing: they do not follow each other so.
std::optional<Dims> reshaped(const Dims& from, const Dims& strides, const Dims& to);

/// Finds the view of every value, making storages as they are needed.
class Views {
  public:
    explicit Views(const graph::Graph& graph, const Room& room = {});

    /// True if a concatenation's input stands where the concatenation has it, or can be written there.
    bool sunk(const graph::Node& concat, size_t input);

    const View& view(graph::ValueId value);
    std::vector<Storage>& storages() { return storages_; }

  private:
    struct Sink {
        graph::ValueId into = 0;
        size_t input = 0;
        int64_t offset = 0;  ///< elements of the result's row-major shape along its axis
        size_t axis = 0;
        int64_t per_position = 0;  ///< the same, further for each position
    };

    bool made(graph::ValueId value) const;

    /// Returns what a reshape shows, if it can be made in the place that is meant for the result.
    std::optional<graph::ValueId> behind(graph::ValueId value) const;

    bool is_fixed(graph::ValueId value) const {
        return inputs_.count(value) > 0 || outputs_.count(value) > 0;
    }

    // ---- caches: what the host gives, with something after it or in it, goes back to the host in the same bytes
    /// The value that a slice shows a part of.
    std::optional<graph::ValueId> slice_of(graph::ValueId value) const;

    /// Returns an input that becomes the result when something is written into it: everybody reads what
    /// stays, at its place.
    std::optional<graph::ValueId> updated_by(const graph::Node& concat, size_t axis) const;

    void find_sinks(const graph::Node& concat);

    /// Gives all forms of a value its place: one of them is computed.
    void find_forms(const graph::Node& choose);

    /// Finds new rows, which go to the place in a cache that the position says: it becomes the result, if
    /// nobody else reads it.
    void find_rows(const graph::Node& insert);

    View make(graph::ValueId value);

    View stored(graph::ValueId id);

    static uint64_t row_bytes(const graph::Value& value);

    /// Strides of a matrix that L2 cannot hold and whose rows would all begin in the same channel of DRAM: parts of them,
    /// which products read, would lie in few of the channels. Rows begin in one after the other, if every reader can see
    /// them so.
    std::optional<Dims> rows_apart(graph::ValueId id);

    bool can_be_seen(graph::ValueId id, const View& view);

    View renamed(const graph::Node& node, graph::ValueId value) {
        return renamed(node, value, view(node.inputs[0]));
    }

    /// Returns a value as a node that renames bytes shows it of its operand.
    View renamed(const graph::Node& node, graph::ValueId value, const View& from) const;

    const graph::Graph& graph_;
    std::vector<int32_t> producers_;
    std::vector<std::vector<graph::NodeId>> users_;  ///< empty: nobody has asked
    Room room_;
    std::set<graph::ValueId> inputs_, outputs_;  ///< inputs and outputs of the graph
    /// Indexed by concatenation: the input that it becomes.
    std::map<graph::ValueId, graph::ValueId> updated_;
    std::map<graph::ValueId, Sink> sinks_;
    std::map<graph::ValueId, graph::ValueId>
        shown_;  ///< for what is made where a reshape's result is: that result
    std::vector<std::optional<View>> views_;
    std::vector<Storage> storages_;
};

}  // namespace kpu::compiler
