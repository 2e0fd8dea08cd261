#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/tile_schedule/check.hpp"
#include "runtime/schedule_engine/arena.hpp"
#include "runtime/schedule_engine/tensor_store.hpp"
#include "runtime/schedule_engine/timing.hpp"
#include "values/compute.hpp"

namespace kpu::tile_schedule {

struct EngineConfig {
    uint64_t sram_bytes = 256 * 1024;
    bool trace = false;                       ///< keep a line of text per op of the last execute
    uint32_t tile = 32;                       ///< rows and columns of a tile
    ElemType elem = ElemType::f32;            ///< type of operands: f32, f16, bf16, i8
    std::string platform = default_platform;  ///< platform whose cycles are counted
};

struct EngineStats {
    uint64_t loads = 0, executes = 0, stores = 0;  ///< counts of all ops so far
};

/// Executes schedules one op after another on an arena and a tensor store: the values of the program that
/// lower() makes of them, bit for bit, without a model in between. Time does not depend on values, so the
/// model tells it afterwards, for the ops alone, when somebody asks.
class Engine {
  public:
    /// Throws UserError on sizes and types that cannot be.
    explicit Engine(const EngineConfig& config);

    /// Does the same as TensorStore::register_tensor.
    uint32_t register_tensor(const std::string& name, uint64_t rows, uint64_t cols,
                             ElemType elem = ElemType::none, double scale = 0);
    /// Sets a tensor: `elements` must be rows x cols; `data` holds them in the tensor's type, row-major.
    void set_tensor(std::string_view name, const void* data, uint64_t elements);
    void get_tensor(std::string_view name, void* data, uint64_t elements) const;

    /// Clears the arena, then runs the ops. Throws ScheduleError before anything ran when they are not legal.
    void execute(const std::vector<Op>& ops);
    /// Does the same with the packed form.
    void execute_packed(std::string_view bytes);

    EngineStats stats() const { return stats_; }
    /// Returns the time of all executes so far, as if one ran after the other. Simulates what it has not
    /// simulated yet; throws UserError when the platform cannot run it.
    ScheduleTiming timing();
    const std::vector<std::string>& trace() const { return trace_; }
    const TensorStore& tensors() const { return tensors_; }
    const EngineConfig& config() const { return config_; }

  private:
    /// An op with its places looked up.
    struct Step {
        enum class Kind : uint8_t { load, execute, store } kind = Kind::load;
        bool relu = false;
        uint8_t* from = nullptr;
        uint8_t* to = nullptr;
        uint64_t from_stride = 0, to_stride = 0, line = 0;  ///< bytes
        OpcodeId conversion = 0;                            ///< opcode of a STORE whose types differ, else 0
        std::vector<values::Tensor> inputs, outputs;        ///< tensors of the arithmetic
        BoundQuant from_quant, to_quant;
    };
    struct Plan {
        std::vector<Op> ops;
        EngineStats counts;
        std::vector<std::unique_ptr<Step>> steps;  ///< they point into each other's quantisation
    };

    const Plan& plan_for(const std::vector<Op>& ops);
    void add(Plan& plan, const Load& op);
    void add(Plan& plan, const Execute& op, const OpFacts& facts);
    void add(Plan& plan, const Store& op, const OpFacts& facts);
    void run(const Step& step);
    values::Tensor tile_tensor(ElemType elem, uint8_t* data, const BoundQuant* quant = nullptr) const;

    EngineConfig config_;
    SramArena arena_;
    TensorStore tensors_;
    std::unique_ptr<values::ComputeBackend> backend_;
    OpcodeId gemm_ = 0, cast_ = 0, requant_ = 0;
    BoundAttrs no_attrs_;
    std::vector<uint8_t> narrow_;  ///< a converted tile
    Plan plan_;                    ///< plan of the ops executed last: the same again need no checks
    EngineStats stats_;
    std::vector<std::string> trace_;
    TimedRuns timed_;
};

}  // namespace kpu::tile_schedule
