// JSON to Export: every number is checked here, so that nothing after it looks at untrusted ones.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/pallas/export.hpp"
#include "isa/kernel/lexer.hpp"
#include "isa/kernel/tile_code.hpp"

namespace kpu::compiler::pallas {
namespace {

constexpr size_t max_arrays = 65536, max_steps = 65536, max_variables = 1 << 20, max_depth = 48;

class Reader {
  public:
    Reader(std::shared_ptr<const JsonDocument> document, const std::string& origin)
        : document_(std::move(document)), origin_(origin) {}

    Export run() {
        Export result;
        const Json root = document_->root();
        keys(root, {"format", "version", "jax", "name", "lines", "arrays", "steps"}, {});
        if (text(root, "format") != "kpusim-pallas") fail("`format` is not kpusim-pallas");
        if (const int64_t version = whole(root.find("version")); version != 1)
            fail(fmt::format("version {} of the form", version), "Fix: export it again with this kpusim.");
        result.name = text(root, "name");
        const Json lines = list(root, "lines", max_variables);
        lines_.reserve(lines.size());
        for (const Json line : lines) lines_.push_back(word(line));
        for (const Json one : list(root, "arrays", max_arrays)) result.arrays.push_back(array(one));
        arrays_ = result.arrays.size();
        for (const Json one : list(root, "steps", max_steps)) result.steps.push_back(step(one));
        result.document = std::move(document_);  // where lines, names and parameters stand
        return result;
    }

  private:
    [[noreturn]] void fail(
        const std::string& what,
        const std::string& fix = "Fix: export it again; the file was changed or cut.") const {
        std::string where = where_;
        if (equation_ != nullptr) where = fmt::format("{}: `{}`", equation_->line, equation_->op);
        if (!where.empty()) where += ": ";
        throw UserError(fmt::format("{}: error: {}{}. {}", origin_, where, what, fix));
    }

    // ---- pieces

    void keys(const Json& object, std::initializer_list<std::string_view> needed,
              std::initializer_list<std::string_view> optional) const {
        if (!object.is_object()) fail("an object is missing");
        for (const std::string_view key : needed)
            if (!object.find(key)) fail(fmt::format("`{}` is missing", key));
        for (auto item = object.begin(), last = object.end(); item != last; ++item) {
            const auto is = [&](std::string_view key) { return item.key() == key; };
            if (std::none_of(needed.begin(), needed.end(), is) &&
                std::none_of(optional.begin(), optional.end(), is))
                fail(fmt::format("`{}` is not a key of the form", item.key()));
        }
    }
    Json list(const Json& object, const char* key, size_t most) const {
        return items(object.find(key), key, most);
    }
    Json items(const Json& found, const char* what, size_t most) const {
        if (!found.is_array()) fail(fmt::format("`{}` is not a list", what));
        if (found.size() > most)
            fail(fmt::format("`{}` has more than {} members", what, most), "Fix: export a smaller program.");
        return found;
    }
    std::string_view word(const Json& value) const {
        if (!value.is_string()) fail("a text is missing");
        return value.string();
    }
    std::string_view text(const Json& object, const char* key) const { return word(object.find(key)); }
    int64_t whole(const Json& value, int64_t least = -(int64_t{1} << 40),
                  int64_t most = int64_t{1} << 40) const {
        if (!value.is_integer()) fail("a whole number is missing");
        const int64_t number = value.integer();
        if (number < least || number > most) fail(fmt::format("{} is out of range", number));
        return number;
    }
    Shape numbers(const Json& value, const char* what) const {
        Shape result;
        for (const Json one : items(value, what, 64)) result.push_back(whole(one));
        return result;
    }
    Shape shape(const Json& value) const {
        const Shape result = numbers(value, "shape");
        int64_t count = 1;
        for (const int64_t size : result) {
            if (size < 0 || size > INT32_MAX) fail(fmt::format("size {} must be 0 to 2^31 - 1", size));
            if (size > 0 && count > (int64_t{1} << 31) / size)
                fail("an array of more than 2^31 elements", "Fix: use smaller arrays.");
            count *= size;
        }
        if (result.size() > kernel::max_tile_rank) fail("too many dimensions", "Fix: reshape it.");
        return result;
    }
    Type type(std::string_view name) const {
        const auto found = kernel::parse_type(name);
        if (!found || !kernel::contains(kernel::tile_types, *found))
            fail(fmt::format("`{}` is not an element type", name));
        return *found;
    }
    std::string_view line(const Json& object) const { return line_of(object.find("line")); }
    std::string_view line_of(const Json& number) const {
        const int64_t index = whole(number, 0);
        if (static_cast<size_t>(index) >= lines_.size()) fail("`line` is none of the lines");
        return lines_[static_cast<size_t>(index)];
    }
    int variable(const Json& value) const {
        return static_cast<int>(
            whole(value, 0, static_cast<int64_t>(call_ == nullptr ? 0 : call_->variables.size()) - 1));
    }
    std::vector<int> variables(const Json& value, const char* what) const {
        std::vector<int> result;
        result.reserve(items(value, what, max_variables).size());
        for (const Json one : value) result.push_back(variable(one));
        return result;
    }
    Atom atom(const Json& value) const {
        Atom result;
        if (!value.is_array()) {
            result.variable = variable(value);
            return result;
        }
        if (value.size() != 2) fail("a literal has a type and bits");
        auto part = value.begin();
        result.type = type(word(*part));
        result.bits = static_cast<uint64_t>(whole(*++part, 0, UINT32_MAX));
        return result;
    }
    std::vector<Atom> atoms(const Json& value, const char* what) const {
        std::vector<Atom> result;
        result.reserve(items(value, what, max_variables).size());
        for (const Json one : value) result.push_back(atom(one));
        return result;
    }

    // ---- refs and equations

    Transform transform(const Json& value) const {
        if (!value.is_array() || value.size() != 2) fail("a transform has a name and what it takes");
        Transform result;
        auto part = value.begin();
        const std::string_view name = word(*part);
        const Json what = *++part;
        if (name == "index") {
            for (const Json one : items(what, "index", 16)) result.dims.push_back(index_dim(one));
        } else if (name == "bitcast") {
            result.kind = Transform::Kind::bitcast;
            result.type = type(word(what));
        } else if (name == "reshape" || name == "transpose") {
            result.kind = name == "reshape" ? Transform::Kind::reshape : Transform::Kind::transpose;
            result.numbers = shape(what);
        } else {
            fail(fmt::format("`{}` is not a transform", name));
        }
        return result;
    }
    IndexDim index_dim(const Json& value) const {
        IndexDim dim;
        dim.slice = value.is_array() && value.size() == 4;
        if (!dim.slice) {
            dim.start = atom(value);
            return dim;
        }
        auto part = value.begin();
        if (word(*part) != "slice") fail("an index is a slice or an atom");
        dim.start = atom(*++part);
        dim.size = whole(*++part, 0, INT32_MAX);
        dim.stride = whole(*++part, 1, INT32_MAX);
        return dim;
    }
    Ref ref(const Json& value) const {
        keys(value, {"ref"}, {"at"});
        Ref result;
        result.variable = variable(value.find("ref"));
        if (call_->type_of(result.variable).space.empty()) fail("a ref is a value");
        if (const Json at = value.find("at"))
            for (const Json one : items(at, "at", 64)) result.at.push_back(transform(one));
        return result;
    }

    /// Members that every equation may have; of several members with one key the last counts. The others are
    /// its parameters.
    struct Parts {
        Json op, line, in, out, refs, blocks;
        explicit Parts(const Json& equation) {
            for (auto item = equation.begin(), last = equation.end(); item != last; ++item) {
                const std::string_view key = item.key();
                Json* const part = key == "op"       ? &op
                                   : key == "line"   ? &line
                                   : key == "in"     ? &in
                                   : key == "out"    ? &out
                                   : key == "refs"   ? &refs
                                   : key == "blocks" ? &blocks
                                                     : nullptr;
                if (part != nullptr) *part = item.value();
            }
        }
    };
    Equation equation(const Json& value, size_t depth) {
        if (!value.is_object()) fail("an equation has `op` and `line`");
        const Parts parts(value);
        if (!parts.op || !parts.line) fail("an equation has `op` and `line`");
        Equation result;
        result.op = word(parts.op);
        result.line = line_of(parts.line);
        result.parameters = value;
        const Equation* const outer = std::exchange(equation_, &result);
        if (parts.in) result.in = atoms(parts.in, "in");
        if (parts.out) result.out = variables(parts.out, "out");
        if (parts.refs)
            for (const Json one : items(parts.refs, "refs", 16)) result.refs.push_back(ref(one));
        if (parts.blocks)
            for (const Json one : items(parts.blocks, "blocks", 256))
                result.blocks.push_back(block(one, depth + 1));
        equation_ = outer;
        return result;
    }
    Block block(const Json& value, size_t depth) {
        if (depth > max_depth) fail("blocks nest too deep", "Fix: flatten the kernel's control flow.");
        keys(value, {"inputs", "equations", "results"}, {});
        Block result;
        result.inputs = variables(value.find("inputs"), "inputs");
        const Json equations = items(value.find("equations"), "equations", max_variables);
        result.equations.reserve(equations.size());
        for (const Json one : equations) result.equations.push_back(equation(one, depth));
        result.results = atoms(value.find("results"), "results");
        return result;
    }

    // ---- arrays, calls, moves

    Array array(const Json& value) {
        keys(value, {"name", "type", "shape", "role"}, {"data"});
        Array result;
        result.name = text(value, "name");
        where_ = fmt::format("array `{}`", result.name);
        if (!kernel::is_identifier(result.name) || !names_.insert(text(value, "name")).second)
            fail("its name is not a new identifier");
        result.type = type(text(value, "type"));
        result.shape = shape(value.find("shape"));
        const std::string_view role = text(value, "role");
        using Role = Array::Role;
        result.role = role == "input"     ? Role::input
                      : role == "output"  ? Role::output
                      : role == "between" ? Role::between
                                          : Role::constant;
        if (result.role == Role::constant && role != "constant")
            fail(fmt::format("`{}` is not a role", role));
        if (static_cast<bool>(value.find("data")) != (result.role == Role::constant))
            fail("constants have `data`, others do not");
        const auto bytes =
            static_cast<size_t>(kernel::elements_of(result.shape)) * kernel::tile_bytes(result.type);
        if (bytes == 0) fail("it is empty", "Fix: leave arrays without elements out of the call.");
        if (result.role == Role::constant) result.data = decoded(text(value, "data"), bytes);
        where_.clear();
        return result;
    }
    std::string decoded(std::string_view text, size_t bytes) const {
        std::string result;
        result.reserve(std::min(bytes, text.size()));
        uint32_t bits = 0;
        int have = 0;
        for (const char c : text) {
            if (c == '=') break;
            const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                              : c >= 'a' && c <= 'z' ? c - 'a' + 26
                              : c >= '0' && c <= '9' ? c - '0' + 52
                              : c == '+'             ? 62
                              : c == '/'             ? 63
                                                     : -1;
            if (value < 0) fail("its data is not base64");
            bits = bits << 6 | static_cast<uint32_t>(value);
            have += 6;
            if (have < 8) continue;
            have -= 8;
            result += static_cast<char>(bits >> have & 0xff);
        }
        if (result.size() != bytes) fail(fmt::format("its data has {} bytes, not {}", result.size(), bytes));
        return result;
    }

    Step step(const Json& value) {
        Step result;
        if (value.find("call")) {
            keys(value, {"call"}, {});
            result.call = call(value.find("call"));
        } else {
            keys(value, {"move"}, {});
            result.move = move(value.find("move"));
        }
        where_.clear();
        return result;
    }
    size_t array_index(const Json& value) const {
        return static_cast<size_t>(whole(value, 0, static_cast<int64_t>(arrays_) - 1));
    }

    Move move(const Json& value) {
        where_ = "a move";
        keys(value, {"from", "to", "from_offset", "to_offset", "size", "from_stride", "to_stride", "line"},
             {});
        Move result;
        result.from = array_index(value.find("from"));
        result.to = array_index(value.find("to"));
        result.from_offset = whole(value.find("from_offset"));
        result.to_offset = whole(value.find("to_offset"));
        result.size = shape(value.find("size"));
        result.from_stride = numbers(value.find("from_stride"), "from_stride");
        result.to_stride = numbers(value.find("to_stride"), "to_stride");
        result.line = line(value);
        if (result.from_stride.size() != result.size.size() || result.to_stride.size() != result.size.size())
            fail("strides of another rank");
        return result;
    }

    Call call(const Json& value) {
        where_ = "a call";
        keys(value, {"name", "line", "grid", "types", "vars", "operands", "scratch", "aliases", "body"}, {});
        Call result;
        result.name = text(value, "name");
        result.line = line(value);
        where_ = fmt::format("call `{}`", result.name);
        for (const Json one : items(value.find("types"), "types", max_variables))
            result.types.push_back(variable_type(one));
        if (result.types.empty()) result.types.emplace_back();
        const auto last_type = static_cast<int64_t>(result.types.size()) - 1;
        const Json variables_of = items(value.find("vars"), "vars", max_variables);
        result.variables.reserve(variables_of.size());
        for (const Json one : variables_of)
            result.variables.push_back(static_cast<uint32_t>(whole(one, 0, last_type)));
        call_ = &result;
        for (const Json one : items(value.find("operands"), "operands", 1024))
            result.operands.push_back(operand(one));
        for (const Json one : items(value.find("grid"), "grid", 16)) result.grid.push_back(axis(one, result));
        result.scratch = variables(value.find("scratch"), "scratch");
        for (const Json one : items(value.find("aliases"), "aliases", 1024)) {
            const Shape pair = numbers(one, "aliases");
            const auto known = [&](int64_t i) {
                return i >= 0 && i < static_cast<int64_t>(result.operands.size());
            };
            if (pair.size() != 2 || !known(pair[0]) || !known(pair[1]))
                fail("an alias is a pair of operands");
            result.aliases.emplace_back(pair[0], pair[1]);
        }
        result.body = block(value.find("body"), 0);
        call_ = nullptr;
        return result;
    }
    VariableType variable_type(const Json& value) const {
        keys(value, {"type", "shape"}, {"space"});
        VariableType result;
        const std::string_view name = text(value, "type");
        result.is_semaphore = name == "semaphore" || name == "dma_semaphore";
        if (!result.is_semaphore) result.type = type(name);
        result.shape = shape(value.find("shape"));
        if (value.find("space")) result.space = text(value, "space");
        return result;
    }
    GridAxis axis(const Json& value, const Call& call) const {
        GridAxis result;
        if (!value.is_object()) {
            result.size = whole(value, 0, INT32_MAX);
            return result;
        }
        keys(value, {"bound"}, {});
        result.bound =
            static_cast<int>(whole(value.find("bound"), 0, static_cast<int64_t>(call.operands.size()) - 1));
        if (call.operands[static_cast<size_t>(result.bound)].role != Operand::Role::bound)
            fail("a bound is not such an operand");
        return result;
    }
    Operand operand(const Json& value) {
        keys(value, {"array", "role", "shape"}, {"ref", "block"});
        Operand result;
        result.array = array_index(value.find("array"));
        result.shape = shape(value.find("shape"));
        const std::string_view role = text(value, "role");
        using Role = Operand::Role;
        if (role == "bound")
            result.role = Role::bound;
        else if (role == "prefetch")
            result.role = Role::prefetch;
        else if (role == "input")
            result.role = Role::input;
        else if (role == "output")
            result.role = Role::output;
        else
            fail(fmt::format("`{}` is not a role", role));
        if (result.role != Role::bound) result.ref = variable(value.find("ref"));
        if (const Json block = value.find("block")) result.block = block_spec(block, result.shape);
        if (result.block && result.shape.size() > kernel::max_copy_rank) join_dimensions(result);
        return result;
    }
    /// Joins dimensions of a copy, which has few: those that a block has whole are one with the dimension
    /// before.
    static void join_dimensions(Operand& operand) {
        std::vector<BlockDim>& dims = operand.block->dims;
        std::vector<Atom>& places = operand.block->map.results;
        for (size_t d = dims.size() - 1; d > 0; --d) {
            const bool is_whole = dims[d].kind == BlockDim::Kind::blocked &&
                                  dims[d].size == operand.shape[d] && places[d].is_literal() &&
                                  places[d].bits == 0;
            if (!is_whole || dims[d - 1].kind == BlockDim::Kind::element) continue;
            const auto at = static_cast<std::ptrdiff_t>(d);
            dims[d - 1] = {BlockDim::Kind::blocked, dims[d - 1].size * dims[d].size, 0};
            operand.shape[d - 1] *= operand.shape[d];
            dims.erase(dims.begin() + at);
            places.erase(places.begin() + at);
            operand.shape.erase(operand.shape.begin() + at);
        }
    }
    BlockSpec block_spec(const Json& value, const Shape& shape) {
        keys(value, {"dims", "map"}, {"buffers"});
        BlockSpec result;
        for (const Json one : items(value.find("dims"), "dims", 16)) {
            if (!one.is_array() || one.size() == 0) fail("a dimension of a block has a kind");
            auto part = one.begin();
            const std::string_view kind = word(*part);
            BlockDim dim;
            if (kind == "squeezed")
                dim.kind = BlockDim::Kind::squeezed;
            else if (kind == "element" && one.size() == 4)
                dim.kind = BlockDim::Kind::element;
            else if (kind != "blocked" || one.size() != 2)
                fail(fmt::format("`{}` is not a dimension of a block", kind));
            if (one.size() > 1) dim.size = whole(*++part, 1, INT32_MAX);
            if (one.size() == 4) dim.low = whole(*++part, 0, INT32_MAX);
            result.dims.push_back(dim);
        }
        result.map = block(value.find("map"), 0);
        if (const Json buffers = value.find("buffers")) result.buffers = whole(buffers, 1, 64);
        if (result.dims.size() != shape.size() || result.map.results.size() != shape.size())
            fail("a block of another rank than its array");
        return result;
    }

    std::shared_ptr<const JsonDocument> document_;
    const std::string& origin_;
    std::string where_;
    const Equation* equation_ = nullptr;  ///< that is being read: where it stands is more exact
    std::vector<std::string_view> lines_;
    std::unordered_set<std::string_view> names_;
    size_t arrays_ = 0;
    const Call* call_ = nullptr;  ///< that is being read
};

[[noreturn]] void no_parameter(const Equation& equation, const char* name) {
    throw UserError(fmt::format("{}: `{}` has no `{}` that fits. Fix: export it again with this kpusim.",
                                equation.line, equation.op, name));
}

}  // namespace

Shape Equation::list(const char* name) const {
    const Json found = parameters.find(name);
    Shape result;
    if (!found.is_array() || found.size() > 64) no_parameter(*this, name);
    for (const Json one : found) {
        if (!one.is_integer()) no_parameter(*this, name);
        result.push_back(one.integer());
    }
    return result;
}
int64_t Equation::number(const char* name) const {
    const Json found = parameters.find(name);
    if (!found.is_integer()) no_parameter(*this, name);
    return found.integer();
}
bool Equation::flag(const char* name) const {
    const Json found = parameters.find(name);
    if (!found.is_boolean()) no_parameter(*this, name);
    return found.boolean();
}

Export read_export(const std::string& bytes, const std::string& origin) {
    auto document = JsonDocument::parse(bytes);
    if (document == nullptr)
        throw UserError(
            fmt::format("{}: error: this is not JSON, or is cut off. Fix: export it again.", origin));
    return Reader(std::move(document), origin).run();
}

}  // namespace kpu::compiler::pallas
