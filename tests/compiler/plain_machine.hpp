#pragma once
// A schedule executed op by op on plain bytes, with arithmetic of its own: what the results are compared
// with. And random schedules, legal by construction from the rules of the format.
#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "compiler/tile_schedule/check.hpp"
#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule::plain {

/// The arena and the padded tensors as bytes.
class Machine {
  public:
    Machine(const Header& header, uint64_t arena_bytes);
    void set(const std::string& name, const std::string& dense);  ///< rows x cols elements
    std::string get(const std::string& name) const;
    void run(const std::vector<Op>& ops);

  private:
    struct Storage {
        const Tensor* tensor;
        uint64_t cols;  ///< padded
        std::vector<uint8_t> bytes;
    };
    uint8_t* tile_row(uint32_t id, uint32_t row, uint32_t col, uint32_t line);
    void run_op(const Load& op);
    void run_op(const Execute& op);
    void run_op(const Store& op);

    Header header_;
    std::map<uint32_t, Storage> tensors_;
    std::vector<uint8_t> arena_;
    std::map<uint32_t, double> scales_;  ///< scale of the tile at an address
};

/// Returns random little-endian elements: floats in [-1, 1), integers of the whole range.
std::string random_data(ElemType elem, uint64_t count, SplitMix64& random);

struct RandomSchedule {
    Schedule schedule;
    uint64_t arena_bytes = 0;
    std::map<std::string, std::string> inputs;  ///< dense data
};

/// Makes a legal schedule: tensors of any size, tiles of 1 to 16, any type, addresses that overlap what is no
/// longer needed.
RandomSchedule random_schedule(uint64_t seed);
/// Makes one change that makes it illegal; `expected` and `op` are the first fault.
Schedule make_illegal(const RandomSchedule& legal, SplitMix64& random, FaultKind& expected, uint32_t& op);

}  // namespace kpu::tile_schedule::plain
