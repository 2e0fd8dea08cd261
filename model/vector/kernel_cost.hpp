#pragma once

#include <array>
#include <vector>

#include "model/stream/stream.hpp"
#include "model/task/product.hpp"
#include "platforms/platform.pb.h"
#include "values/kernel/lanes/batch.hpp"
#include "values/kernel/tiles/tile_copies.hpp"

namespace kpu::model {

/// Place of a buffer of a kernel.
struct KernelBufferPlace {
    Level level = Level::l1;
    uint16_t engine = 0;
    uint64_t address = 0;  ///< in its level
    uint64_t bytes = 0;
};

/// A copy that a kernel started.
struct KernelCopy {
    uint32_t tag = 0, lane = 0;
    uint32_t source = 0, destination = 0;  ///< buffers
    uint64_t source_byte = 0, destination_byte = 0, bytes = 0;
    bool of_tiles = false;  ///< rule set xla: by number, between the two patterns of bytes
    uint64_t number = 0;
    Footprint source_pattern, destination_pattern;  ///< addresses from the start of the buffers
};

/// Words of L1 that a kernel asked for, of one buffer.
struct KernelTraffic {
    uint64_t read = 0, written = 0;         ///< bytes
    uint64_t low = ~uint64_t{0}, high = 0;  ///< addresses that they lie between
};

/// Costs of the statements of a kernel on a vector unit, as they are executed.
class KernelCost : public values::kernel::StepObserver {
  public:
    /// `places`: of every buffer of the code.
    KernelCost(const kernel::Code& code, const proto::Engine& engine, std::vector<KernelBufferPlace> places);

    void accessed(kernel::ExprIndex site, uint32_t buffer, const uint32_t* elements, const uint32_t* lanes,
                  uint32_t count) override;
    void copy_started(uint32_t lane, uint32_t tag, const values::kernel::Copy& copy) override;
    void computed(kernel::CostClass cost, uint64_t elements, uint64_t times) override;
    void multiplied(const values::kernel::TileProduct& product) override;
    void touched(const values::kernel::ByteWindow& window, bool writes) override;
    void copy_started(const values::kernel::TileCopy& copy) override;
    void executed(uint32_t statement, uint32_t active) override;

    Cycles cycles() const { return cycles_of_last_; }  ///< cycles of the statement executed last
    uint64_t useful() const { return useful_; }        ///< lane-cycles so far
    /// Returns the operations of a class so far, one for each lane that executed it.
    uint64_t operations(kernel::CostClass cost) const { return operations_[static_cast<size_t>(cost)]; }
    /// Returns the traffic of each buffer, since whoever carries it off cleared it.
    std::vector<KernelTraffic>& traffic() { return traffic_; }
    std::vector<KernelCopy>& started_copies() { return started_copies_; }
    /// Returns the products for the array, since whoever had them done cleared it.
    std::vector<Product>& products() { return products_; }
    /// True if products of the statement may be for the array.
    bool multiplies(uint32_t statement) const { return multiplies_[statement]; }
    const std::vector<KernelBufferPlace>& places() const { return places_; }

  private:
    /// Contents of the expressions of a statement.
    struct Content {
        std::array<uint32_t, kernel::cost_class_count> count{};
    };
    void add(Content& content, kernel::ExprIndex root) const;
    void find_products();
    Cycles bank_cycles(uint32_t buffer, const uint32_t* elements, uint32_t count, uint64_t& words);
    bool take_neighbours(const uint32_t* elements, uint32_t count, const KernelBufferPlace& place,
                         unsigned bytes, KernelTraffic& traffic, Cycles& cycles, uint64_t& words);
    Cycles row_cycles(const values::kernel::ByteWindow& window, uint64_t byte, uint64_t elements,
                      uint64_t& words);

    const kernel::Code& code_;
    const std::vector<KernelBufferPlace> places_;
    const uint64_t lanes_;
    const uint64_t width_, interleave_, banks_;  ///< sizes of L1
    std::array<uint64_t, kernel::cost_class_count> cycles_{};
    uint64_t statement_cycles_, barrier_cycles_, scalar_cycles_;
    std::vector<Content> contents_;
    Cycles access_ = 0, computing_ = 0, cycles_of_last_ = 0;
    uint64_t useful_ = 0;
    std::vector<KernelTraffic> traffic_;
    std::array<uint64_t, kernel::cost_class_count> operations_{};
    std::vector<KernelCopy> started_copies_;
    const proto::SystolicArray& array_;
    std::vector<Product> products_;
    std::vector<bool> multiplies_;                        ///< indexed by statement
    std::vector<std::pair<uint64_t, uint64_t>> touched_;  ///< bank and word
    std::vector<uint32_t> words_of_bank_;
    std::vector<uint32_t> scattered_;  ///< elements of a window without long rows
};

}  // namespace kpu::model
