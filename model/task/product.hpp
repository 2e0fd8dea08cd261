#pragma once

#include <cstdint>
#include <systemc>
#include <tlm>
#include <tuple>

#include "base/types.hpp"
#include "execution/controller.hpp"
#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// A product of tiles that a kernel has done by its engine's array: `groups` of m x k by k x n.
struct Product {
    ElemType a = ElemType::none, b = ElemType::none, result = ElemType::none;
    uint64_t groups = 0, m = 0, n = 0, k = 0;
    /// Address in L1: both operands and the result cross it there, one after the other.
    uint64_t address = 0;
    uint32_t op = traces::background_op;

    friend bool operator<(const Product& x, const Product& y) {
        const auto all = [](const Product& p) {
            return std::tie(p.a, p.b, p.result, p.groups, p.m, p.n, p.k, p.address, p.op);
        };
        return all(x) < all(y);
    }
};

/// The mandatory extension of what a vector unit asks its engine's sequencer for, by CommandProtocol:
///
///     vector unit -> BEGIN_REQ   an array is to do the product
///     sequencer   -> END_REQ     an array has it
///     sequencer   -> BEGIN_RESP  it is done: the request is the vector unit's again
struct ProductRequest : tlm::tlm_extension<ProductRequest> {
    tlm::tlm_generic_payload* payload = nullptr;  ///< that carries it
    Product product;
    execution::TaskInstance* task = nullptr;  ///< the kernel's
    uint16_t first_unit = traces::no_unit;    ///< first unit of the kernel's launch
    uint16_t engine = no_engine;
    int port = 0;  ///< port of the sequencer, which sets it: where the answers go

    tlm::tlm_extension_base* clone() const override { return new ProductRequest(*this); }
    void copy_from(const tlm::tlm_extension_base& other) override {
        *this = static_cast<const ProductRequest&>(other);
    }
};

}  // namespace kpu::model
