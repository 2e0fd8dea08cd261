#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/structure.hpp"

namespace kpu {

/// Subject of a message, "offset of region `X`": put together only when there is something to say.
struct Phrase {
    std::string_view kind;      ///< buffer
    std::string_view name;      ///< X; empty: the kind alone
    std::string_view property;  ///< "offset of "; empty: the thing itself
    std::string text() const;
    friend Phrase operator+(std::string_view of, const Phrase& whole) { return {whole.kind, whole.name, of}; }
};

/// Resolves a structurally sound program step by step. Every mistake goes to `diagnostics` with its place, so
/// that the verifier reports all of them and bind() throws them together. A step needs the steps before it to
/// be clean.
class Binder {
  public:
    Binder(const Module& module, const DeviceLimits& limits, Diagnostics& diagnostics);

    bool bind_values(const ParamBindings& params);  ///< parameters, constants
    bool bind_follows(const proto::Tensor& tensor, TensorSpec& spec);
    bool bind_buffers();     ///< sizes, addresses, capacities
    bool bind_regions();     ///< types, strides, quantisation, constant bounds
    bool bind_statements();  ///< loops, tasks with attributes and units, waits, ops
    bool bind_host();        ///< inputs, outputs, data images

    BoundProgram& result() { return result_; }

  private:
    bool constant_of(const proto::Expr& expr, const SourcePos& pos, const Phrase& what, int64_t& value);
    bool expr_of(const proto::Expr& expr, const SourcePos& pos, const Phrase& what, BoundExpr& value);
    void error(const SourcePos& pos, std::string message) { diagnostics_.error(pos, std::move(message)); }

    // bind_memory.cpp
    void bind_buffer(size_t index);
    void bind_region(size_t index);
    bool bind_shape(const proto::Region& region, BoundRegion& out, const SourcePos& pos, const Phrase& what);
    bool bind_strides(const proto::Region& region, BoundRegion& out, const SourcePos& pos,
                      const Phrase& what);
    void bind_quant(const proto::Quant& quant, bool channels_first, BoundRegion& out, const SourcePos& pos,
                    const Phrase& what);
    void check_extent(const BoundRegion& region, const SourcePos& pos, const Phrase& what);

    // bind_statements.cpp
    void bind_loop(size_t index);
    void bind_task(size_t index);
    void bind_transfer(BoundTask& task);
    void bind_attributes(const proto::Task& source, BoundTask& task, const SourcePos& pos);
    bool bind_attribute(const AttrSpec& spec, const proto::Value& value, BoundAttr& out,
                        const SourcePos& pos);
    bool bind_number(const proto::Value& value, const Phrase& what, BoundAttr& out, const SourcePos& pos);
    void normalise_axis(BoundTask& task) const;
    void place(const proto::Task& source, BoundTask& task, const SourcePos& pos);
    void bind_resource(const proto::Decorator& decorator, BoundTask& task, const SourcePos& pos);
    void bind_seq_engine(const proto::Decorator& decorator, BoundTask& task, const SourcePos& pos);
    void count_work(BoundTask& task) const;
    std::string profile_of(const proto::Task& source, size_t index) const;
    static void add_profile(BoundOp& op, const std::string& tag);
    uint32_t op_of(const proto::Task& source, const BoundTask& task, size_t index);

    // bind_launch.cpp
    void bind_kernels();
    bool bind_launch(const proto::Task& source, BoundTask& task, const SourcePos& pos);
    bool bind_operands(const proto::Task& source, const kernel::Code& code, BoundLaunch& launch,
                       const BoundTask& task, const SourcePos& pos);
    bool fits(const kernel::Code& code, const kernel::CodeBuffer& buffer, uint32_t region,
              const BoundTask& task, const SourcePos& pos);

    // bind_host.cpp
    void bind_tensors();
    bool bind_inferences(const proto::Tensor& tensor, const SourcePos& pos);
    bool bind_host_type(const proto::Tensor& tensor, TensorSpec& spec);
    void bind_buffer_io();
    void bind_data();
    void add_image(uint32_t buffer, int64_t offset, const DataSection& bytes, const std::string& name);

    const Module& module_;
    const KPUProgram& program_;
    const DeviceLimits& limits_;
    Diagnostics& diagnostics_;
    Nesting nesting_;
    BoundProgram result_;
    std::vector<int64_t> constants_, params_;
    std::unordered_map<std::string, uint32_t> buffer_index_;
    std::set<uint32_t> described_;  ///< buffers that declared tensors describe: no outputs by name
    std::set<uint32_t> filled_;     ///< buffers that data sections fill
    std::unordered_set<std::string> op_ids_;
    std::unordered_map<std::string, std::shared_ptr<const kernel::Code>> kernels_;
};

/// Returns the bytes from the first element to past the last one; nothing when that does not fit in 62 bits.
std::optional<int64_t> reach_bytes(ElemType elem, const Dims& shape, const Dims& strides);
/// Returns the smallest and largest value of an integer element type.
std::pair<int64_t, int64_t> integer_range(ElemType type);

}  // namespace kpu

template <>
struct fmt::formatter<kpu::Phrase> : fmt::formatter<std::string> {
    template <class Context>
    auto format(const kpu::Phrase& phrase, Context& context) const {
        return fmt::formatter<std::string>::format(phrase.text(), context);
    }
};
