#include "isa/structure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "isa/container.hpp"
#include "isa/expr.hpp"

namespace kpu {
namespace {

constexpr int max_expr_tokens = 4096;
constexpr int max_operands = 64;
constexpr int max_list = 1 << 20;  // items of a value list, entries of a quantisation table

bool is_identifier(std::string_view name) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (name.empty() || !letter(name[0])) return false;
    return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// Walks a program once; every complaint names the field by its path.
class StructureCheck {
  public:
    StructureCheck(const KPUProgram& program, const std::string& origin)
        : program_(program), origin_(origin) {}

    void run() {
        check_params_and_constants();
        check_buffers();
        check_statements();
        check_regions();
        check_host_side();
    }

  private:
    template <class... Args>
    [[noreturn]] void fail(const std::string& field, fmt::format_string<Args...> text, Args&&... args) const {
        throw UserError(fmt::format("{}: malformed program: {} {}", origin_, field,
                                    fmt::format(text, std::forward<Args>(args)...)));
    }

    void check_name(const std::string& name, const std::string& field) const {
        if (!is_identifier(name)) {
            fail(field + ".name", "is {}, not an identifier. Fix: use letters, digits and _.",
                 name.empty() ? std::string("empty") : "`" + escaped(name) + "`");
        }
    }

    static std::string escaped(const std::string& name) {
        std::string text;
        for (const char c : name.substr(0, 64)) {
            text += c >= ' ' && c <= '~' ? std::string(1, c)
                                         : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
        return text;
    }

    /// Postfix form: every operator finds its operands, exactly one value is left, the stack stays bounded.
    void check_expr(const proto::Expr& expr, const std::string& field, int constants, int params,
                    int depth) const {
        using Token = proto::ExprToken;
        if (expr.token_size() == 0) fail(field, "is empty. Fix: give an integer expression.");
        if (expr.token_size() > max_expr_tokens) fail(field, "has more than {} tokens.", max_expr_tokens);
        int stack = 0;
        for (const Token& token : expr.token()) {
            const int64_t v = token.value();
            const int64_t limit = token.kind() == Token::CONST   ? constants
                                  : token.kind() == Token::PARAM ? params
                                  : token.kind() == Token::LOOP  ? depth
                                                                 : 0;
            if (is_leaf(token.kind())) {
                if (token.kind() != Token::INT && (v < 0 || v >= limit)) {
                    fail(field, "refers to {} {}, but {} are visible here.", Token::Kind_Name(token.kind()),
                         v, limit);
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

    void check_expr(const proto::Expr& expr, const std::string& field, int depth) const {
        check_expr(expr, field, program_.constant_size(), program_.param_size(), depth);
    }

    void check_value(const proto::Value& value, const std::string& field, int depth, bool in_list) const {
        switch (value.kind_case()) {
            case proto::Value::kExpr:
                check_expr(value.expr(), field + ".expr", depth);
                break;
            case proto::Value::kList:
                if (in_list) fail(field, "is a list within a list; lists have one level.");
                if (value.list().item_size() > max_list) fail(field, "has more than {} items.", max_list);
                for (int i = 0; i < value.list().item_size(); ++i) {
                    check_value(value.list().item(i), fmt::format("{}.list.item[{}]", field, i), depth, true);
                }
                break;
            case proto::Value::kReal:
                check_real(value.real(), field + ".real");
                break;
            case proto::Value::KIND_NOT_SET:
                fail(field, "has no value.");
            default:
                break;
        }
    }

    /// NaN has many bit patterns and one text.
    void check_real(double value, const std::string& field) const {
        if (std::isnan(value)) fail(field, "is not a number (NaN).");
    }

    void check_estimate(double value, const std::string& field) const {
        if (!std::isfinite(value) || std::signbit(value))
            fail(field, "is {}. Fix: give a finite number of at least 0.", value);
    }

    template <class Decorators>
    void check_decorators(const Decorators& decorators, const std::string& field, int depth) const {
        for (int i = 0; i < decorators.size(); ++i) {
            const proto::Decorator& decorator = decorators.Get(i);
            const std::string at = fmt::format("{}.decorator[{}]", field, i);
            check_name(decorator.name(), at);
            for (int k = 0; k < decorator.arg_size(); ++k) {
                check_value(decorator.arg(k), fmt::format("{}.arg[{}]", at, k), depth, false);
            }
            if (decorator.has_index()) check_expr(decorator.index(), at + ".index", depth);
        }
    }

    void check_params_and_constants() const {
        for (int i = 0; i < program_.param_size(); ++i) {
            const proto::Param& param = program_.param(i);
            const std::string field = fmt::format("param[{}]", i);
            check_name(param.name(), field);
            if (param.min() > param.max()) fail(field, "has min {} above max {}.", param.min(), param.max());
            if (param.default_value() < param.min() || param.default_value() > param.max()) {
                fail(field, "has default {} outside [{}..{}].", param.default_value(), param.min(),
                     param.max());
            }
        }
        for (int i = 0; i < program_.constant_size(); ++i) {
            const std::string field = fmt::format("constant[{}]", i);
            check_name(program_.constant(i).name(), field);
            check_expr(program_.constant(i).value(), field + ".value", i, 0, 0);
        }
    }

    void check_buffers() {
        for (int i = 0; i < program_.buffer_size(); ++i) {
            const proto::Buffer& buffer = program_.buffer(i);
            const std::string field = fmt::format("buffer[{}]", i);
            check_name(buffer.name(), field);
            buffer_names_.insert(buffer.name());
            check_expr(buffer.size(), field + ".size", 0);
            if (buffer.has_align()) check_expr(buffer.align(), field + ".align", 0);
            if (buffer.has_engine()) {
                if (buffer.level() != proto::L1) fail(field, "has an engine but is not at L1.");
                check_expr(buffer.engine(), field + ".engine", 0);
            }
            check_decorators(buffer.decorator(), field, 0);
        }
    }

    /// One pass with a stack of open loops; notes at what depth each region is declared and used.
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
            const std::string field = fmt::format("statement[{}]", i);
            switch (statement.kind_case()) {
                case proto::Statement::kTask:
                    check_task(statement.task(), field + ".task", i, depth);
                    break;
                case proto::Statement::kLoop:
                    check_loop(statement.loop(), field + ".loop", i, end, depth);
                    ends.push_back(static_cast<int>(statement.loop().body_end()));
                    break;
                case proto::Statement::kWait:
                    if (statement.wait().dep_size() == 0) fail(field + ".wait", "waits for nothing.");
                    check_deps(statement.wait().dep(), field + ".wait", i);
                    break;
                case proto::Statement::kLetRegion:
                    declare_region(statement.let_region(), field + ".let_region", end, depth);
                    break;
                case proto::Statement::KIND_NOT_SET:
                    fail(field, "has no kind.");
            }
        }
    }

    void declare_region(uint32_t region, const std::string& field, int block_end, int depth) {
        if (region >= static_cast<uint32_t>(program_.region_size())) {
            fail(field, "is {}, but there are {} regions.", region, program_.region_size());
        }
        if (region_depth_[region] >= 0)
            fail(field, "declares region {} a second time or after its use.", region);
        check_name(program_.region(static_cast<int>(region)).name(), fmt::format("region[{}]", region));
        region_depth_[region] = depth;
        region_end_[region] = block_end;
    }

    void check_loop(const proto::Loop& loop, const std::string& field, int index, int end, int depth) const {
        check_name(loop.variable(), field + ".variable");
        if (depth >= max_loop_depth) fail(field, "is nested deeper than {} loops.", max_loop_depth);
        const auto body_end = static_cast<int64_t>(loop.body_end());
        if (body_end <= index || body_end > end) {
            fail(field + ".body_end", "is {}, outside ({}..{}].", body_end, index, end);
        }
        check_expr(loop.first(), field + ".first", depth);
        check_expr(loop.last(), field + ".last", depth);
        check_decorators(loop.decorator(), field, depth);
    }

    template <class Deps>
    void check_deps(const Deps& deps, const std::string& field, int index) const {
        for (int i = 0; i < deps.size(); ++i) {
            const uint32_t dep = deps.Get(i);
            if (dep >= static_cast<uint32_t>(index) ||
                !program_.statement(static_cast<int>(dep)).has_task()) {
                fail(fmt::format("{}.dep[{}]", field, i), "is {}, which is not an earlier task.", dep);
            }
        }
    }

    void check_operand(const proto::Operand& operand, const std::string& field, int index, int depth) {
        const uint32_t region = operand.region();
        if (region >= static_cast<uint32_t>(program_.region_size())) {
            fail(field + ".region", "is {}, but there are {} regions.", region, program_.region_size());
        }
        if (region_depth_[region] >= 0 && index >= region_end_[region]) {
            fail(field + ".region", "is {}, which is declared in a block that has ended.", region);
        }
        if (region_depth_[region] < 0) {  // written inline: belongs to the task that uses it first
            if (!program_.region(static_cast<int>(region)).name().empty()) {
                fail(field + ".region", "is {}, which is used before its declaration.", region);
            }
            region_depth_[region] = depth;
            region_end_[region] = index + 1;
        }
        check_decorators(operand.decorator(), field, depth);
    }

    void check_task(const proto::Task& task, const std::string& field, int index, int depth) {
        if (task.kind() == proto::Task::KERNEL || task.has_kernel()) {
            fail(field,
                 "launches a vector kernel, which this version does not execute. Fix: use opcode tasks.");
        }
        if (!task.name().empty()) check_name(task.name(), field);
        const bool compute = task.kind() == proto::Task::COMPUTE;
        if (compute == task.opcode().empty()) {
            fail(field + ".opcode", "{}.", compute ? "is missing" : "is set on a transfer or store");
        }
        const int limit = compute ? max_operands : 1;
        if (task.input_size() > limit || task.output_size() > limit ||
            (!compute && (task.input_size() != 1 || task.output_size() != 1))) {
            fail(field, "has {} inputs and {} outputs; {}.", task.input_size(), task.output_size(),
                 compute ? "at most 64 are allowed" : "a transfer or store has one of each");
        }
        if (!compute && task.attribute_size() > 0)
            fail(field + ".attribute", "is set on a transfer or store.");
        if (task.attribute_size() > max_operands) fail(field, "has more than {} attributes.", max_operands);
        for (int i = 0; i < task.input_size(); ++i) {
            check_operand(task.input(i), fmt::format("{}.input[{}]", field, i), index, depth);
        }
        for (int i = 0; i < task.output_size(); ++i) {
            check_operand(task.output(i), fmt::format("{}.output[{}]", field, i), index, depth);
        }
        for (int i = 0; i < task.attribute_size(); ++i) {
            const std::string at = fmt::format("{}.attribute[{}]", field, i);
            check_name(task.attribute(i).name(), at);
            check_value(task.attribute(i).value(), at + ".value", depth, false);
        }
        check_deps(task.dep(), field, index);
        check_decorators(task.decorator(), field, depth);
        if (task.op() > static_cast<uint32_t>(program_.op_size())) {
            fail(field + ".op", "is {}, but there are {} ops.", task.op(), program_.op_size());
        }
    }

    void check_regions() const {
        for (int i = 0; i < program_.region_size(); ++i) {
            const proto::Region& region = program_.region(i);
            const std::string field = fmt::format("region[{}]", i);
            const int depth = std::max(region_depth_[static_cast<size_t>(i)], 0);
            if (!region.name().empty()) check_name(region.name(), field);
            if (region.buffer() >= static_cast<uint32_t>(program_.buffer_size())) {
                fail(field + ".buffer", "is {}, but there are {} buffers.", region.buffer(),
                     program_.buffer_size());
            }
            check_expr(region.offset(), field + ".offset", depth);
            check_expr(region.extent(), field + ".extent", depth);
            check_type(region, field, depth);
            check_decorators(region.decorator(), field, depth);
        }
    }

    void check_type(const proto::Region& region, const std::string& field, int depth) const {
        if (region.elem() == proto::ELEM_NONE) {
            if (region.shape_size() + region.stride_size() > 0 || !region.layout().empty() ||
                region.has_quant()) {
                fail(field, "has a shape, layout, strides or quant but no element type.");
            }
            return;
        }
        if (region.shape_size() < 1 || region.shape_size() > max_rank) {
            fail(field + ".shape", "has {} dimensions; 1 to {} are allowed.", region.shape_size(), max_rank);
        }
        if (region.stride_size() > 0 &&
            (region.stride_size() != region.shape_size() || !region.layout().empty())) {
            fail(field + ".stride", "has {} entries for {} dimensions, or stands beside a layout.",
                 region.stride_size(), region.shape_size());
        }
        if (!region.layout().empty()) check_name(region.layout(), field + ".layout");
        for (int i = 0; i < region.shape_size(); ++i) check_expr(region.shape(i), field + ".shape", depth);
        for (int i = 0; i < region.stride_size(); ++i) check_expr(region.stride(i), field + ".stride", depth);
        check_quant(region.quant(), field + ".quant");
    }

    void check_quant(const proto::Quant& quant, const std::string& field) const {
        const int scales = quant.scale_size();
        if (scales != quant.zero_point_size()) {
            fail(field, "has {} scales but {} zero points.", scales, quant.zero_point_size());
        }
        if (scales > max_list) fail(field, "has more than {} scales.", max_list);
        if (quant.kind() == proto::Quant::NONE && scales > 0) fail(field, "has scales but no kind.");
        if (quant.kind() == proto::Quant::PER_TENSOR && scales != 1) {
            fail(field, "is per tensor with {} scales; it needs one.", scales);
        }
        for (const double scale : quant.scale()) check_real(scale, field + ".scale");
    }

    void check_host_side() const {
        std::set<std::string> tensors;
        for (int i = 0; i < program_.tensor_size(); ++i) {
            const proto::Tensor& tensor = program_.tensor(i);
            const std::string field = fmt::format("tensor[{}]", i);
            if (!tensors.insert(tensor.id()).second) fail(field + ".id", "is used twice.");
            check_home(tensor.buffer(), tensor.offset(), field);
            if (tensor.stride_size() > 0 && tensor.stride_size() != tensor.shape_size()) {
                fail(field + ".stride", "has {} entries for {} dimensions.", tensor.stride_size(),
                     tensor.shape_size());
            }
            for (const int64_t extent : tensor.shape()) {
                if (extent < 1) fail(field + ".shape", "has extent {}.", extent);
            }
            if (tensor.data() > static_cast<uint32_t>(program_.data_size())) {
                fail(field + ".data", "is {}, but there are {} data entries.", tensor.data(),
                     program_.data_size());
            }
            check_quant(tensor.quant(), field + ".quant");
        }
        check_ops();
        check_estimate(program_.estimated_total_energy_uj(), "estimated_total_energy_uj");
        for (const std::string& id : program_.input_id()) check_tensor_id(tensors, id, "input_id");
        for (const std::string& id : program_.output_id()) check_tensor_id(tensors, id, "output_id");
        for (int i = 0; i < program_.data_size(); ++i) {
            check_home(program_.data(i).buffer(), program_.data(i).offset(), fmt::format("data[{}]", i));
        }
        const proto::DeviceDirective& device = program_.device();
        if (!device.path().empty() + !device.name().empty() + !device.body().empty() > 1) {
            fail("device", "gives more than one of path, name and body.");
        }
    }

    void check_ops() const {
        for (int i = 0; i < program_.op_size(); ++i) {
            const proto::Op& op = program_.op(i);
            const std::string field = fmt::format("op[{}]", i);
            check_estimate(op.estimated_energy_pj(), field + ".estimated_energy_pj");
            for (int k = 0; k < op.attribute_size(); ++k) {
                const std::string at = fmt::format("{}.attribute[{}]", field, k);
                check_real(op.attribute(k).f(), at + ".f");
                for (const double value : op.attribute(k).floats()) check_real(value, at + ".floats");
            }
        }
    }

    void check_home(const std::string& buffer, int64_t offset, const std::string& field) const {
        if (!buffer.empty() && buffer_names_.count(buffer) == 0) {
            fail(field + ".buffer", "names `{}`, which is not a buffer.", escaped(buffer));
        }
        if (offset < 0) fail(field + ".offset", "is negative ({}).", offset);
    }

    void check_tensor_id(const std::set<std::string>& tensors, const std::string& id,
                         const std::string& field) const {
        if (tensors.count(id) == 0) fail(field, "names `{}`, which is not a tensor.", escaped(id));
    }

    const KPUProgram& program_;
    const std::string& origin_;
    std::set<std::string> buffer_names_;
    std::vector<int> region_depth_;  ///< loops visible to the region's expressions; -1 = not declared yet
    std::vector<int> region_end_;    ///< first statement that no longer sees the region
};

}  // namespace

void check_structure(const KPUProgram& program, const std::string& origin) {
    check_known_fields(program, origin);
    StructureCheck(program, origin).run();
}

Nesting nesting_of(const KPUProgram& program) {
    Nesting nesting;
    std::vector<int32_t> open;
    for (int i = 0; i < program.statement_size(); ++i) {
        while (!open.empty() &&
               program.statement(open.back()).loop().body_end() == static_cast<uint32_t>(i)) {
            open.pop_back();
        }
        nesting.parent.push_back(open.empty() ? -1 : open.back());
        nesting.depth.push_back(static_cast<uint16_t>(open.size()));
        if (program.statement(i).has_loop()) open.push_back(i);
    }
    return nesting;
}

std::vector<uint32_t> loops_around(const Nesting& nesting, uint32_t index) {
    std::vector<uint32_t> loops;
    for (int32_t i = nesting.parent[index]; i >= 0; i = nesting.parent[static_cast<size_t>(i)]) {
        loops.push_back(static_cast<uint32_t>(i));
    }
    std::reverse(loops.begin(), loops.end());
    return loops;
}

}  // namespace kpu
