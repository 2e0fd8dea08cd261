#include "isa/structure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "isa/container.hpp"
#include "isa/expr.hpp"
#include "isa/kernel/form.hpp"
#include "isa/kernel/lexer.hpp"

namespace kpu {
namespace {

constexpr int max_expr_tokens = 4096;
constexpr int max_operands = 64;
constexpr int max_list = 1 << 20;  // items of a value list, entries of a quantisation table

using kernel::is_identifier;

/// Path of a field for messages: put together only when there is something to say.
struct Field {
    const Field* parent;
    std::string_view name;
    int index = -1;

    std::string text() const {
        std::string path = parent == nullptr ? std::string() : parent->text() + ".";
        path += name;
        return index < 0 ? path : fmt::format("{}[{}]", path, index);
    }
};

/// Walks a program once; every complaint names the field by its path.
class StructureCheck {
  public:
    StructureCheck(const KPUProgram& program, const std::string& origin)
        : program_(program), origin_(origin) {}

    void run() {
        check_params();
        check_constants();
        check_buffers();
        check_statements();
        check_kernel_files(program_, origin_);
        check_places(program_, origin_);
        check_regions();
        check_host_side();
    }

    void run_host_side() {
        check_known_fields(program_.device(), origin_);
        for (const proto::Tensor& tensor : program_.tensor()) check_known_fields(tensor, origin_);
        for (const proto::Op& op : program_.op()) check_known_fields(op, origin_);
        for (const proto::Data& data : program_.data()) check_known_fields(data, origin_);
        for (const proto::Place& place : program_.place()) check_known_fields(place, origin_);
        check_params();
        check_places(program_, origin_);
        for (const proto::Buffer& buffer : program_.buffer()) buffer_names_.insert(buffer.name());
        check_host_side();
    }

  private:
    /// Reports an enum value that this version does not know: found here, worded there.
    void known(const google::protobuf::Message& message, bool enums_known) const {
        if (!enums_known) check_known_fields(message, origin_);
    }

    template <class... Args>
    [[noreturn]] void fail(const Field& field, fmt::format_string<Args...> text, Args&&... args) const {
        throw UserError(fmt::format("{}: malformed program: {} {}", origin_, field.text(),
                                    fmt::format(text, std::forward<Args>(args)...)));
    }

    void check_name(const std::string& name, const Field& field) const {
        if (!is_identifier(name)) {
            fail(Field{&field, "name"}, "is {}, not an identifier. Fix: use letters, digits and _.",
                 name.empty() ? std::string("empty") : "`" + escaped(name) + "`");
        }
    }

    /// Checks the postfix form: every operator finds its operands, exactly one value is left, the stack stays
    /// bounded.
    void check_expr(const proto::Expr& expr, const Field& field, int constants, int params, int depth) const {
        if (expr.token_size() == 0) fail(field, "is empty. Fix: give an integer expression.");
        if (expr.token_size() > max_expr_tokens) fail(field, "has more than {} tokens.", max_expr_tokens);
        int stack = 0;
        for (const proto::ExprToken& token : expr.token()) {
            known(token, proto::ExprToken::Kind_IsValid(token.kind()));
            const int64_t v = token.value();
            const int64_t limit = token.kind() == proto::ExprToken::CONST   ? constants
                                  : token.kind() == proto::ExprToken::PARAM ? params
                                  : token.kind() == proto::ExprToken::LOOP  ? depth
                                                                            : 0;
            if (is_leaf(token.kind())) {
                if (token.kind() != proto::ExprToken::INT && (v < 0 || v >= limit)) {
                    fail(field, "refers to {} {}, but {} are visible here.",
                         proto::ExprToken::Kind_Name(token.kind()), v, limit);
                }
                if (++stack > max_expr_stack)
                    fail(field, "needs more than {} operands at once.", max_expr_stack);
            } else {
                const int operands = is_binary_operator(token.kind()) ? 2 : 1;
                if (stack < operands) fail(field, "is not a well-formed postfix expression.");
                stack -= operands - 1;
            }
        }
        if (stack != 1) fail(field, "is not a well-formed postfix expression.");
    }

    void check_expr(const proto::Expr& expr, const Field& field, int depth) const {
        check_expr(expr, field, program_.constant_size(), program_.param_size(), depth);
    }

    void check_value(const proto::Value& value, const Field& field, int depth, bool in_list) const {
        switch (value.kind_case()) {
            case proto::Value::kExpr:
                check_expr(value.expr(), Field{&field, "expr"}, depth);
                break;
            case proto::Value::kList:
                if (in_list) fail(field, "is a list within a list; lists have one level.");
                if (value.list().item_size() > max_list) fail(field, "has more than {} items.", max_list);
                for (int i = 0; i < value.list().item_size(); ++i) {
                    check_value(value.list().item(i), Field{&field, "list.item", i}, depth, true);
                }
                break;
            case proto::Value::kReal:
                check_real(value.real(), Field{&field, "real"});
                break;
            case proto::Value::KIND_NOT_SET:
                fail(field, "has no value.");
            default:
                break;
        }
    }

    /// Refuses a NaN, which has many bit patterns and one text.
    void check_real(double value, const Field& field) const {
        if (std::isnan(value)) fail(field, "is not a number (NaN).");
    }

    void check_estimate(double value, const Field& field) const {
        if (!std::isfinite(value) || std::signbit(value))
            fail(field, "is {}. Fix: give a finite number of at least 0.", value);
    }

    template <class Decorators>
    void check_decorators(const Decorators& decorators, const Field& field, int depth) const {
        for (int i = 0; i < decorators.size(); ++i) {
            const proto::Decorator& decorator = decorators.Get(i);
            const Field at{&field, "decorator", i};
            check_name(decorator.name(), at);
            for (int k = 0; k < decorator.arg_size(); ++k) {
                check_value(decorator.arg(k), Field{&at, "arg", k}, depth, false);
            }
            if (decorator.has_index()) check_expr(decorator.index(), Field{&at, "index"}, depth);
        }
    }

    void check_params() const {
        for (int i = 0; i < program_.param_size(); ++i) {
            const proto::Param& param = program_.param(i);
            const Field field{nullptr, "param", i};
            check_name(param.name(), field);
            if (param.min() > param.max()) fail(field, "has min {} above max {}.", param.min(), param.max());
            if (param.default_value() < param.min() || param.default_value() > param.max()) {
                fail(field, "has default {} outside [{}..{}].", param.default_value(), param.min(),
                     param.max());
            }
        }
    }

    void check_constants() const {
        for (int i = 0; i < program_.constant_size(); ++i) {
            const Field field{nullptr, "constant", i};
            check_name(program_.constant(i).name(), field);
            check_expr(program_.constant(i).value(), Field{&field, "value"}, i, 0, 0);
        }
    }

    void check_buffers() {
        for (int i = 0; i < program_.buffer_size(); ++i) {
            const proto::Buffer& buffer = program_.buffer(i);
            const Field field{nullptr, "buffer", i};
            known(buffer, proto::Level_IsValid(buffer.level()));
            check_name(buffer.name(), field);
            buffer_names_.insert(buffer.name());
            check_expr(buffer.size(), Field{&field, "size"}, 0);
            if (buffer.has_align()) check_expr(buffer.align(), Field{&field, "align"}, 0);
            if (buffer.has_engine()) {
                if (buffer.level() != proto::L1) fail(field, "has an engine but is not at L1.");
                check_expr(buffer.engine(), Field{&field, "engine"}, 0);
            }
            check_decorators(buffer.decorator(), field, 0);
        }
    }

    /// Makes one pass with a stack of open loops; notes at what depth each region is declared and used.
    void check_statements() {
        region_depth_.assign(static_cast<size_t>(program_.region_size()), -1);
        region_end_.assign(static_cast<size_t>(program_.region_size()), 0);
        std::vector<int> ends;
        const int count = program_.statement_size();
        for (int i = 0; i < count; ++i) {
            while (!ends.empty() && ends.back() == i) ends.pop_back();
            const int end = ends.empty() ? count : ends.back();
            const int depth = static_cast<int>(ends.size());
            const proto::Statement& statement = program_.statement(i);
            const Field field{nullptr, "statement", i};
            switch (statement.kind_case()) {
                case proto::Statement::kTask:
                    check_task(statement.task(), Field{&field, "task"}, i, depth);
                    break;
                case proto::Statement::kLoop:
                    check_loop(statement.loop(), Field{&field, "loop"}, i, end, depth);
                    ends.push_back(static_cast<int>(statement.loop().body_end()));
                    break;
                case proto::Statement::kWait:
                    if (statement.wait().dep_size() == 0) fail(Field{&field, "wait"}, "waits for nothing.");
                    check_deps(statement.wait().dep(), Field{&field, "wait"}, i);
                    break;
                case proto::Statement::kLetRegion:
                    declare_region(statement.let_region(), Field{&field, "let_region"}, end, depth);
                    break;
                case proto::Statement::KIND_NOT_SET:
                    fail(field, "has no kind.");
            }
        }
    }

    void declare_region(uint32_t region, const Field& field, int block_end, int depth) {
        if (region >= static_cast<uint32_t>(program_.region_size())) {
            fail(field, "is {}, but there are {} regions.", region, program_.region_size());
        }
        if (region_depth_[region] >= 0)
            fail(field, "declares region {} a second time or after its use.", region);
        check_name(program_.region(static_cast<int>(region)).name(),
                   Field{nullptr, "region", static_cast<int>(region)});
        region_depth_[region] = depth;
        region_end_[region] = block_end;
    }

    void check_loop(const proto::Loop& loop, const Field& field, int index, int end, int depth) const {
        check_name(loop.variable(), Field{&field, "variable"});
        if (depth >= max_loop_depth) fail(field, "is nested deeper than {} loops.", max_loop_depth);
        const auto body_end = static_cast<int64_t>(loop.body_end());
        if (body_end <= index || body_end > end) {
            fail(Field{&field, "body_end"}, "is {}, outside ({}..{}].", body_end, index, end);
        }
        check_expr(loop.first(), Field{&field, "first"}, depth);
        check_expr(loop.last(), Field{&field, "last"}, depth);
        check_decorators(loop.decorator(), field, depth);
    }

    template <class Deps>
    void check_deps(const Deps& deps, const Field& field, int index) const {
        for (int i = 0; i < deps.size(); ++i) {
            const uint32_t dep = deps.Get(i);
            const auto is_task = [&](int count) {
                return dep < static_cast<uint32_t>(count) &&
                       program_.statement(static_cast<int>(dep)).has_task();
            };
            if (is_task(index)) continue;
            fail(Field{&field, "dep", i}, "is {}, which is not an earlier task. Fix: {}.", dep,
                 is_task(program_.statement_size())
                     ? "put that task first; its token of an earlier iteration of a loop around both goes "
                       "into "
                       "`carried` (task, loop, distance)"
                     : "give the statement index of a task that stands before this statement");
        }
    }

    void check_carried(const proto::Task& task, const Field& field, int index) const {
        for (int i = 0; i < task.carried_size(); ++i) {
            const proto::Carried& carried = task.carried(i);
            const Field at{&field, "carried", i};
            const auto count = static_cast<uint32_t>(program_.statement_size());
            if (carried.task() >= count || !program_.statement(static_cast<int>(carried.task())).has_task()) {
                fail(Field{&at, "task"}, "is {}, which is not a task.", carried.task());
            }
            if (carried.loop() >= count || !program_.statement(static_cast<int>(carried.loop())).has_loop()) {
                fail(Field{&at, "loop"}, "is {}, which is not a loop.", carried.loop());
            }
            const uint32_t end = program_.statement(static_cast<int>(carried.loop())).loop().body_end();
            const auto inside = [&](uint32_t s) { return s > carried.loop() && s < end; };
            if (!inside(static_cast<uint32_t>(index)) || !inside(carried.task())) {
                fail(Field{&at, "loop"}, "is {}, which does not enclose both tasks ({} and {}).",
                     carried.loop(), index, carried.task());
            }
            if (carried.distance() < 1 || carried.distance() > max_carried_distance) {
                fail(Field{&at, "distance"}, "is {}; 1 to {} are allowed.", carried.distance(),
                     max_carried_distance);
            }
        }
    }

    void check_operand(const proto::Operand& operand, const Field& field, int index, int depth) {
        const uint32_t region = operand.region();
        if (region >= static_cast<uint32_t>(program_.region_size())) {
            fail(Field{&field, "region"}, "is {}, but there are {} regions.", region, program_.region_size());
        }
        if (region_depth_[region] >= 0 && index >= region_end_[region]) {
            fail(Field{&field, "region"}, "is {}, which is declared in a block that has ended.", region);
        }
        if (region_depth_[region] < 0) {  // written inline: belongs to the task that uses it first
            if (!program_.region(static_cast<int>(region)).name().empty()) {
                fail(Field{&field, "region"}, "is {}, which is used before its declaration.", region);
            }
            region_depth_[region] = depth;
            region_end_[region] = index + 1;
        }
        check_decorators(operand.decorator(), field, depth);
    }

    void check_task(const proto::Task& task, const Field& field, int index, int depth) {
        known(task, proto::Task::Kind_IsValid(task.kind()));
        const bool launch = task.kind() == proto::Task::KERNEL;
        if (launch != task.has_kernel())
            fail(Field{&field, "kernel"}, "is missing, or set on another kind of task.");
        if (launch) check_launch(task.kernel(), Field{&field, "kernel"}, depth);
        if (!task.name().empty()) check_name(task.name(), field);
        const bool compute = task.kind() == proto::Task::COMPUTE;
        if (compute == task.opcode().empty()) {
            fail(Field{&field, "opcode"}, "{}.",
                 compute ? "is missing" : "is set on a transfer, store or kernel");
        }
        const bool many = compute || launch;
        const int limit = many ? max_operands : 1;
        if (task.input_size() > limit || task.output_size() > limit ||
            (!many && (task.input_size() != 1 || task.output_size() != 1))) {
            fail(field, "has {} inputs and {} outputs; {}.", task.input_size(), task.output_size(),
                 many ? "at most 64 are allowed" : "a transfer or store has one of each");
        }
        if (!compute && task.attribute_size() > 0)
            fail(Field{&field, "attribute"}, "is set on a transfer, store or kernel.");
        if (task.attribute_size() > max_operands) fail(field, "has more than {} attributes.", max_operands);
        for (int i = 0; i < task.input_size(); ++i) {
            check_operand(task.input(i), Field{&field, "input", i}, index, depth);
        }
        for (int i = 0; i < task.output_size(); ++i) {
            check_operand(task.output(i), Field{&field, "output", i}, index, depth);
        }
        for (int i = 0; i < task.attribute_size(); ++i) {
            const Field at{&field, "attribute", i};
            check_name(task.attribute(i).name(), at);
            check_value(task.attribute(i).value(), Field{&at, "value"}, depth, false);
        }
        check_deps(task.dep(), field, index);
        check_carried(task, field, index);
        check_decorators(task.decorator(), field, depth);
        if (task.op() > static_cast<uint32_t>(program_.op_size())) {
            fail(Field{&field, "op"}, "is {}, but there are {} ops.", task.op(), program_.op_size());
        }
    }

    void check_launch(const proto::Kernel& launch, const Field& field, int depth) const {
        check_name(launch.name(), field);
        if (launch.grid_size() > 3)
            fail(Field{&field, "grid"}, "has {} axes; 3 are allowed.", launch.grid_size());
        if (launch.scalar_size() > max_operands)
            fail(Field{&field, "scalar"}, "has more than {} values.", max_operands);
        for (const proto::Expr& expr : launch.grid()) check_expr(expr, Field{&field, "grid"}, depth);
        for (const proto::Expr& expr : launch.scalar()) check_expr(expr, Field{&field, "scalar"}, depth);
    }

    void check_regions() const {
        for (int i = 0; i < program_.region_size(); ++i) {
            const proto::Region& region = program_.region(i);
            const Field field{nullptr, "region", i};
            known(region, proto::ElemType_IsValid(region.elem()));
            const int depth = std::max(region_depth_[static_cast<size_t>(i)], 0);
            if (!region.name().empty()) check_name(region.name(), field);
            if (region.buffer() >= static_cast<uint32_t>(program_.buffer_size())) {
                fail(Field{&field, "buffer"}, "is {}, but there are {} buffers.", region.buffer(),
                     program_.buffer_size());
            }
            check_expr(region.offset(), Field{&field, "offset"}, depth);
            check_expr(region.extent(), Field{&field, "extent"}, depth);
            check_type(region, field, depth);
            check_decorators(region.decorator(), field, depth);
        }
    }

    void check_type(const proto::Region& region, const Field& field, int depth) const {
        if (region.elem() == proto::ELEM_NONE) {
            if (region.shape_size() + region.stride_size() > 0 || !region.layout().empty() ||
                region.has_quant()) {
                fail(field, "has a shape, layout, strides or quant but no element type.");
            }
            return;
        }
        if (region.shape_size() < 1 || region.shape_size() > max_rank) {
            fail(Field{&field, "shape"}, "has {} dimensions; 1 to {} are allowed.", region.shape_size(),
                 max_rank);
        }
        if (region.stride_size() > 0 &&
            (region.stride_size() != region.shape_size() || !region.layout().empty())) {
            fail(Field{&field, "stride"}, "has {} entries for {} dimensions, or stands beside a layout.",
                 region.stride_size(), region.shape_size());
        }
        if (!region.layout().empty()) check_name(region.layout(), Field{&field, "layout"});
        for (int i = 0; i < region.shape_size(); ++i)
            check_expr(region.shape(i), Field{&field, "shape"}, depth);
        for (int i = 0; i < region.stride_size(); ++i)
            check_expr(region.stride(i), Field{&field, "stride"}, depth);
        check_quant(region.quant(), Field{&field, "quant"});
    }

    void check_quant(const proto::Quant& quant, const Field& field) const {
        known(quant, proto::Quant::Kind_IsValid(quant.kind()));
        const int scales = quant.scale_size();
        if (scales != quant.zero_point_size()) {
            fail(field, "has {} scales but {} zero points.", scales, quant.zero_point_size());
        }
        if (scales > max_list) fail(field, "has more than {} scales.", max_list);
        if (quant.kind() == proto::Quant::NONE && scales > 0) fail(field, "has scales but no kind.");
        if (quant.kind() == proto::Quant::PER_TENSOR && scales != 1) {
            fail(field, "is per tensor with {} scales; it needs one.", scales);
        }
        for (const double scale : quant.scale()) check_real(scale, Field{&field, "scale"});
    }

    void check_host_side() const {
        std::unordered_set<std::string_view> tensors;
        for (int i = 0; i < program_.tensor_size(); ++i) {
            const proto::Tensor& tensor = program_.tensor(i);
            const Field field{nullptr, "tensor", i};
            known(tensor, proto::ElemType_IsValid(tensor.elem()) &&
                              proto::Tensor::Role_IsValid(tensor.role()) &&
                              proto::HostElem_IsValid(tensor.host_elem()) &&
                              proto::Tensor::Follows_IsValid(tensor.follows()));
            if (!tensors.insert(tensor.id()).second) fail(Field{&field, "id"}, "is used twice.");
            check_home(tensor.buffer(), tensor.offset(), field);
            if (tensor.stride_size() > 0 && tensor.stride_size() != tensor.shape_size()) {
                fail(Field{&field, "stride"}, "has {} entries for {} dimensions.", tensor.stride_size(),
                     tensor.shape_size());
            }
            for (const int64_t extent : tensor.shape()) {
                if (extent < 0) fail(Field{&field, "shape"}, "has extent {}.", extent);
            }
            if (tensor.data() > static_cast<uint32_t>(program_.data_size())) {
                fail(Field{&field, "data"}, "is {}, but there are {} data entries.", tensor.data(),
                     program_.data_size());
            }
            check_quant(tensor.quant(), Field{&field, "quant"});
        }
        check_ops();
        check_estimate(program_.estimated_total_energy_uj(), Field{nullptr, "estimated_total_energy_uj"});
        for (const std::string& id : program_.input_id())
            check_tensor_id(tensors, id, Field{nullptr, "input_id"});
        for (const std::string& id : program_.output_id())
            check_tensor_id(tensors, id, Field{nullptr, "output_id"});
        for (int i = 0; i < program_.data_size(); ++i) {
            check_home(program_.data(i).buffer(), program_.data(i).offset(), Field{nullptr, "data", i});
        }
        const proto::DeviceDirective& device = program_.device();
        if (!device.path().empty() + !device.name().empty() + !device.body().empty() > 1) {
            fail(Field{nullptr, "device"}, "gives more than one of path, name and body.");
        }
    }

    void check_ops() const {
        for (int i = 0; i < program_.op_size(); ++i) {
            const proto::Op& op = program_.op(i);
            const Field field{nullptr, "op", i};
            check_estimate(op.estimated_energy_pj(), Field{&field, "estimated_energy_pj"});
            if (op.fused_type_size() > 0 && op.fused_type_size() != op.fused_with_size())
                fail(Field{&field, "fused_type"}, "has {} entries for {} names in fused_with.",
                     op.fused_type_size(), op.fused_with_size());
            for (int k = 0; k < op.attribute_size(); ++k) {
                const Field at{&field, "attribute", k};
                check_real(op.attribute(k).f(), Field{&at, "f"});
                for (const double value : op.attribute(k).floats()) check_real(value, Field{&at, "floats"});
            }
        }
    }

    void check_home(const std::string& buffer, int64_t offset, const Field& field) const {
        if (!buffer.empty() && buffer_names_.count(buffer) == 0) {
            fail(Field{&field, "buffer"}, "names `{}`, which is not a buffer.", escaped(buffer));
        }
        if (offset < 0) fail(Field{&field, "offset"}, "is negative ({}).", offset);
    }

    void check_tensor_id(const std::unordered_set<std::string_view>& tensors, const std::string& id,
                         const Field& field) const {
        if (tensors.count(id) == 0) fail(field, "names `{}`, which is not a tensor.", escaped(id));
    }

    const KPUProgram& program_;
    const std::string& origin_;
    std::unordered_set<std::string_view> buffer_names_;
    std::vector<int> region_depth_;  ///< loops visible to the region's expressions; -1 = not declared yet
    std::vector<int> region_end_;    ///< first statement that no longer sees the region
};

}  // namespace

void check_form(const KPUProgram& program, const std::string& origin) {
    StructureCheck(program, origin).run();
}

void check_structure(const KPUProgram& program, const std::string& origin) {
    check_known_fields(program, origin);
    check_form(program, origin);
    for (const proto::KernelFile& file : program.kernel_file())
        for (const proto::KernelBody& body : file.kernel()) kernel::check_text(body, origin);
}

void check_host_side(const KPUProgram& program, const std::string& origin) {
    StructureCheck(program, origin).run_host_side();
}

}  // namespace kpu
