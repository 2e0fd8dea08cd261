#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/bound_program.hpp"
#include "values/beyond.hpp"
#include "values/memory_image.hpp"

namespace kpu::values {

namespace kernel {
struct LaunchResult;
}

/// A typed operand as dense row-major elements in `data` (i4: one element per byte, sign-extended; other
/// types in their own bits, little-endian), aligned to the size of an element. Engines never see strides: the
/// executor gathers and scatters.
struct Tensor {
    ElemType type = ElemType::none;
    Dims shape;
    const BoundQuant* quant = nullptr;  ///< null or kind NONE when absent
    uint8_t* data = nullptr;
    /// An output's count of the results that engines see leave their range; null: nobody asks.
    Beyond* beyond = nullptr;
    uint64_t elements() const { return static_cast<uint64_t>(shape.product()); }
};

/// An arithmetic interface, implemented by the reference engine, the fast engine, and callers' own for
/// cross-checks.
class ComputeBackend {
  public:
    virtual ~ComputeBackend() = default;
    virtual const char* name() const = 0;
    virtual bool supports(OpcodeId opcode, const std::vector<ElemType>& inputs,
                          const std::vector<ElemType>& outputs) const = 0;
    /// Throws UserError on shapes or attributes that the opcode does not take.
    virtual void execute(OpcodeId opcode, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& outputs, const BoundAttrs& attrs) = 0;
};

/// Obviously correct, slow: the definition of every opcode's result, bit for bit.
std::unique_ptr<ComputeBackend> make_reference_backend();
/// Vectorised, same bits.
std::unique_ptr<ComputeBackend> make_fast_backend();

/// Sets round-to-nearest and clears flush-to-zero and denormals-are-zero; restores on destruction.
class FloatEnvironment {
  public:
    FloatEnvironment();
    ~FloatEnvironment();
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

  private:
    unsigned saved_;
};

/// Private results of a task between its evaluation and its completion.
struct PendingWrite {
    RegionView view;
    std::vector<uint8_t> bytes;  ///< dense elements, or the bytes of the extent when raw
    bool raw = false;            ///< a byte copy: one side of the transfer is untyped
};

/// Evaluates tasks on a memory. Evaluation reads the inputs as they are now and writes nothing; commit
/// publishes.
class Executor {
  public:
    Executor(const BoundProgram& program, ComputeBackend& backend);
    /// inputs, outputs: region instances in operand order. Result: one pending write per output.
    /// `loops`: values that the scalars of a kernel may depend on.
    void evaluate(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                  const std::vector<RegionView>& outputs, std::vector<PendingWrite>& result,
                  const LoopValues& loops = {});
    static void commit(MemoryMap& memory, std::vector<PendingWrite>& writes);
    /// evaluate + commit without the intermediate copy where the regions allow it (inputs and outputs
    /// disjoint).
    void execute(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                 const std::vector<RegionView>& outputs, const LoopValues& loops = {});

    /// Lane-statements that one launch of a kernel may execute.
    void limit_kernels(uint64_t steps) { kernel_steps_ = steps; }
    /// Sets what kernels look at while they run (LaunchInterrupted); may be null.
    void interrupt_kernels(const std::atomic<bool>* interrupt) { interrupt_ = interrupt; }
    /// Look for races inside kernels.
    void watch_kernels(bool races) { kernel_races_ = races; }
    /// Takes the result of the last launch that was evaluated; null: there was none since the last call.
    std::shared_ptr<const kernel::LaunchResult> take_launch() { return std::move(launch_); }
    /// A launch was executed, here or elsewhere.
    void note_launch(const BoundTask& task, const kernel::LaunchResult& result);
    /// Results of a task of the program so far, and how many of them left the range of their type. Kernels
    /// count none.
    struct Results {
        uint64_t made = 0;
        Beyond beyond;
    };
    const std::vector<Results>& results() const { return results_; }
    /// Accesses outside of buffers that kernels made so far, a warning for each statement.
    Diagnostics findings() const;

  private:
    struct Outside {
        std::string text;
        uint64_t count = 0;
    };
    void run_kernel(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                    const std::vector<RegionView>& outputs, const LoopValues& loops,
                    std::vector<PendingWrite>& result);
    void evaluate_copy(MemoryMap& memory, const RegionView& source, const RegionView& target,
                       PendingWrite& result);
    bool copy_directly(MemoryMap& memory, const RegionView& source, const RegionView& target);
    void compute(const BoundTask& task, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
    Tensor input_tensor(MemoryMap& memory, const RegionView& view, size_t slot);

    const BoundProgram& program_;
    ComputeBackend& backend_;
    std::vector<std::vector<uint8_t>> scratch_;
    std::vector<Results> results_;
    uint64_t kernel_steps_ = UINT64_MAX;
    const std::atomic<bool>* interrupt_ = nullptr;
    bool kernel_races_ = false;
    std::shared_ptr<const kernel::LaunchResult> launch_;
    /// Accesses of kernels outside of buffers.
    std::map<std::tuple<std::string, uint32_t, uint32_t, std::string>, Outside> outside_;
};

/// True if a transfer between the two is a byte copy of their whole extents (one side is untyped) and not a
/// copy of elements. Throws UserError when neither is possible: other element types, shapes or extents.
bool is_byte_copy(const BoundRegion& source, const BoundRegion& target);

/// Copies a region's elements to dense form and back (gaps untouched). Dense i4 is one element per byte.
void gather(const MemoryMap& memory, const RegionView& view, uint8_t* dense);
void scatter(MemoryMap& memory, const RegionView& view, const uint8_t* dense);
/// Returns the bytes of the dense form of a region.
uint64_t dense_bytes(const BoundRegion& region);

}  // namespace kpu::values
