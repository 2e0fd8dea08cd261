#pragma once
// Helpers for tests of graphs: numbers in and out.
#include <cstring>
#include <random>
#include <vector>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/graph/graph.hpp"

namespace kpu::graph::testing {

template <class T>
Data data_of(const std::vector<T>& elements) {
    std::vector<uint8_t> bytes(elements.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
    return make_data(std::move(bytes));
}

template <class T>
std::vector<T> elements_of(const Data& data) {
    std::vector<T> elements(data.size / sizeof(T));
    if (!elements.empty()) std::memcpy(elements.data(), data.bytes, data.size);
    return elements;
}

inline ValueId constant(Graph& graph, const std::vector<int64_t>& shape, const std::vector<float>& elements) {
    return graph.add_constant("c", ElemType::f32, dims(shape), data_of(elements));
}

inline void output(Graph& graph, ValueId value) {
    Port port;
    port.name = graph.value(value).name;
    port.value = value;
    port.elem = graph.value(value).elem;
    graph.outputs.push_back(port);
}

inline NodeOptions named(const std::string& name, const std::string& type = "") {
    NodeOptions options;
    options.source = {name, type};
    return options;
}

}  // namespace kpu::graph::testing
