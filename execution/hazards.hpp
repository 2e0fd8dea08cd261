#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "execution/controller.hpp"
#include "isa/bound_program.hpp"

namespace kpu::values::kernel {
struct KernelRace;
struct LaunchResult;
}  // namespace kpu::values::kernel

namespace kpu::execution {

enum class HazardKind : uint8_t {
    raw,        ///< a task read what another wrote, and nothing orders the two
    war,        ///< a task wrote what another had read or was reading, and nothing orders the two
    waw,        ///< a task wrote what another had written or was writing, and nothing orders the two
    unwritten,  ///< a task read bytes that nobody had written (they read as 0)
    stale,      ///< as war, but the text has the write first: what was read had been in the slot before
    kernel      ///< invocations of one kernel raced, or touched what a copy in flight reads or changes
};
constexpr int hazard_kind_count = 6;
std::string_view name_of(HazardKind kind);  ///< raw, war, waw, unwritten, stale, kernel
std::string_view meaning_of(HazardKind kind);

/// Hazards of one kind between two statements; task, iteration and bytes are those of the first occurrence.
struct HazardFinding {
    HazardKind kind = HazardKind::raw;
    uint32_t statement = 0;  ///< statement of the task that started later, or of the only one
    uint32_t other_statement =
        0;  ///< statement of the task that started before; equal to `statement` when there is no other
    LoopValues loops, other_loops;
    SourcePos pos, other_pos;      ///< line 0: the program carries no positions
    std::string task, other_task;  ///< "task `tA` (i=3) at gemm.nem:21:7"; other empty when there is no other
    std::string buffer;
    Level level = Level::ddr;
    uint16_t engine = 0;           ///< engine of L1
    uint64_t first = 0, last = 0;  ///< bytes from the buffer's base, both inclusive: the common range
    uint64_t count = 0;            ///< occurrences
    std::string statements, fix;   ///< two statements of a kernel and what they do, as a sentence
    uint64_t benign = 0;  ///< rewrites among them of the bytes that were there already (known with values)
};
/// Returns "hazard (war): task `b` (i=1) writes bytes 0..63 of L2 buffer `B` while task `a` (i=0) reads them;
/// 3 times ..."
std::string to_string(const HazardFinding& finding);

/// A task instance of a hazard.
struct HazardSide {
    uint32_t statement = 0;
    LoopValues loops;
};

/// Findings in order of first occurrence, one per kind and pair of statements; beyond `max_findings` pairs
/// only the counts go on.
class HazardLog {
  public:
    static constexpr size_t max_findings = 1000;
    static constexpr size_t not_listed = SIZE_MAX;

    /// Returns the index of the finding, or not_listed. `other` null: no other task.
    size_t add(const BoundProgram& program, HazardKind kind, const HazardSide& task, const HazardSide* other,
               const BoundRegion& region, uint64_t first_address, uint64_t last_address);
    /// Races inside a kernel that a task ran, between two of its statements.
    void add_kernel(const BoundProgram& program, const HazardSide& task,
                    const values::kernel::LaunchResult& launch, const values::kernel::KernelRace& race);
    /// Compares tasks only with those in flight with them, from now on.
    void limit(std::string why) { limited_ = std::move(why); }
    /// Says why races with tasks that were over may be missing; empty when none are.
    const std::string& limited() const { return limited_; }
    /// Marks an occurrence that was added and turned out to rewrite the same bytes.
    void mark_benign(size_t finding);

    const std::vector<HazardFinding>& findings() const { return findings_; }
    uint64_t count() const { return total_; }  ///< occurrences, benign ones included
    uint64_t count(HazardKind kind) const { return counts_[static_cast<size_t>(kind)]; }
    uint64_t benign() const { return benign_; }

  private:
    std::string limited_;
    std::vector<HazardFinding> findings_;
    std::map<std::tuple<HazardKind, uint32_t, uint32_t>, size_t> index_;
    /// Findings of kernels: task statement, the kernel's two statements.
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, size_t> kernel_index_;
    std::array<uint64_t, hazard_kind_count> counts_{};
    uint64_t total_ = 0, benign_ = 0;
};

}  // namespace kpu::execution
