// Inputs, constants and outputs of a model; the entry points.
#include "compiler/onnx/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/iostreams/device/mapped_file.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <tuple>

#include "compiler/onnx/binding.hpp"
#include "compiler/onnx/importer.hpp"

namespace kpu::onnx {
namespace {

namespace fs = std::filesystem;

template <class... Args>
[[noreturn]] void fail(const std::string& origin, fmt::format_string<Args...> text, Args&&... args) {
    Diagnostics diagnostics;
    diagnostics.error({origin, 0, 0}, fmt::format(text, std::forward<Args>(args)...));
    throw UserError(std::move(diagnostics));
}

graph::HostType host_of(Type type) {
    if (type == Type::i64) return graph::HostType::int64;
    if (type == Type::u64) return graph::HostType::uint64;
    if (type == Type::f64) return graph::HostType::float64;
    return type == Type::boolean ? graph::HostType::boolean : graph::HostType::same;
}

/// True if some number's bits, without its sign, are above those of infinity: a NaN. No early exit inside of
/// a block, so that the compiler can take many numbers at once.
template <class Bits>
bool any_above(const uint8_t* bytes, uint64_t count, Bits infinity) {
    constexpr uint64_t block = 4096;
    constexpr Bits magnitude = std::numeric_limits<Bits>::max() >> 1;
    for (uint64_t begin = 0; begin < count; begin += block) {
        Bits found = 0;
        for (uint64_t i = begin; i < std::min(count, begin + block); ++i) {
            Bits bits;
            std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
            found |= static_cast<Bits>((bits & magnitude) > infinity ? 1 : 0);
        }
        if (found != 0) return true;
    }
    return false;
}

/// Holds a NaN (its exponent is all ones, its mantissa is not zero).
bool has_nan(const graph::Value& value) {
    const uint8_t* bytes = value.data.bytes;
    switch (value.elem) {
        case ElemType::f32:
            return any_above<uint32_t>(bytes, value.elements(), 0x7f800000);
        case ElemType::f16:
            return any_above<uint16_t>(bytes, value.elements(), 0x7c00);
        case ElemType::bf16:
            return any_above<uint16_t>(bytes, value.elements(), 0x7f80);
        default:
            return false;
    }
}

/// Calls `use` with a model that is read from a mapped file.
template <class Use>
auto with_model(const std::string& path, Use use) {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (status.type() == fs::file_type::not_found) fail(path, "no such file. Fix: check the path.");
    if (!fs::is_regular_file(status)) fail(path, "not a regular file. Fix: give an .onnx file.");
    boost::iostreams::mapped_file_source file;
    try {
        if (fs::file_size(path, failed) > 0) file.open(path);
    } catch (const std::exception&) {  // its text says less than errno
        fail(path, "cannot be read ({}). Fix: name a file that can be.", std::strerror(errno));
    }
    const std::string_view bytes =
        file.is_open() ? std::string_view(file.data(), file.size()) : std::string_view();
    const std::string folder = fs::path(path).parent_path().string();
    const Model model = read_model(bytes, path, folder.empty() ? "." : folder);
    file.close();
    return use(model);
}

graph::Graph import_checked(const Model& model, const ImportOptions& options, Diagnostics& notes,
                            std::vector<NodeSupport>* nodes) {
    Importer importer(model, options, notes);
    importer.run();
    if (nodes != nullptr) *nodes = importer.support;
    if (const std::string text = importer.problems(); !text.empty()) fail(model.origin, "{}", text);
    return importer.finish();
}

}  // namespace

// ---- what the host gives and takes

void Importer::note(const std::string& text) {
    if (told_.insert(text).second) notes_.info({model_.origin, 0, 0}, text);
}

void Importer::define(Scope& scope, const std::string& name, Operand operand) {
    if (name.empty()) return;
    if (!scope.values.emplace(name, std::move(operand)).second)
        refuse("the name `{}` is made twice. Fix: give each tensor a name of its own.", name);
}

void Importer::add_tensors(Scope& scope, const GraphModel& graph) {
    for (const auto& tensor : graph.tensors) {
        Operand operand;
        operand.type = tensor->type;
        operand.shape = tensor->shape;
        operand.tensor = tensor;
        if (tensor->type == Type::undefined || !tensor->data) {
            refuse(
                "tensor `{}` has type {}, which is not taken. Fix: export it as float32 or an integer type.",
                tensor->name, name_of(tensor->type));
        }
        define(scope, tensor->name, std::move(operand));
    }
}

namespace {

/// Returns what --dim calls a dimension whether it has a name or not.
std::string place_of(const ValueInfo& info, size_t axis) { return fmt::format("{}.{}", info.name, axis); }

/// Returns the name of a dynamic dimension, unless it has none or shares it with another one of this input:
/// then its place.
std::string dim_name(const ValueInfo& info, size_t axis) {
    const std::string& name = info.shape[axis].name;
    const auto same = [&](const Dimension& other) { return other.size < 0 && other.name == name; };
    const bool own = !name.empty() && std::count_if(info.shape.begin(), info.shape.end(), same) == 1;
    return own ? name : place_of(info, axis);
}

}  // namespace

/// Returns the inputs that the host gives; an input that a tensor of the model has the name of has that as
/// its default, which counts.
std::vector<const ValueInfo*> Importer::inputs() const {
    std::set<std::string> constants;
    for (const auto& tensor : model_.graph.tensors) constants.insert(tensor->name);
    std::vector<const ValueInfo*> found;
    for (const ValueInfo& info : model_.graph.inputs) {
        if (constants.count(info.name) == 0) found.push_back(&info);
    }
    return found;
}

/// Sets the batch, which is the dynamic first dimension of inputs.
void Importer::set_batch() {
    if (options_.batch == 0) return;
    std::string known;
    for (const ValueInfo* info : inputs()) {
        if (info->shape.empty() || info->shape[0].size >= 0 || options_.bound.count(info->name) > 0) continue;
        const std::string name = dim_name(*info, 0);
        const std::optional<int64_t> told = told_size(*info, 0);
        if (told && *told != options_.batch)
            known = name;
        else
            batch_dims_.insert(name);
    }
    if (!batch_dims_.empty()) return;
    if (known.empty())
        refuse(
            "--batch {}: no input has a dynamic first dimension. Fix: export the model with one, or leave "
            "--batch out.",
            options_.batch);
    refuse("--batch {}: --dim gives `{}` another size. Fix: leave one of them out.", options_.batch, known);
}

/// Returns what --dim says of a dimension, by its name or its place.
std::optional<int64_t> Importer::told_size(const ValueInfo& info, size_t axis) {
    const auto by_place = options_.dims.find(place_of(info, axis));
    const auto by_name =
        info.shape[axis].name.empty() ? options_.dims.end() : options_.dims.find(info.shape[axis].name);
    for (const auto& given : {by_place, by_name}) {
        if (given == options_.dims.end()) continue;
        const bool no_rows = given->second == 0 && axis > 0;  // of an empty past, say
        if (given->second < 1 && !no_rows)
            refuse(
                "--dim {}={} must be at least 1. Fix: use 1 or more; of a dimension after the first, 0 or "
                "more.",
                given->first, given->second);
        used_dims_.insert(given->first);
    }
    if (by_name == options_.dims.end() && by_place == options_.dims.end()) return std::nullopt;
    if (by_name == options_.dims.end()) return by_place->second;
    if (by_place != options_.dims.end() && by_place->second != by_name->second)
        refuse("--dim gives dimension {} of `{}` two sizes: {}={} and {}={}. Fix: leave one of them out.",
               axis, info.name, by_place->first, by_place->second, by_name->first, by_name->second);
    return by_name->second;
}

/// Returns the size of a dimension, if that is fixed or --dim says it.
std::optional<int64_t> Importer::known_size(const ValueInfo& info, size_t axis) {
    const int64_t fixed = info.shape[axis].size;
    const std::optional<int64_t> told = told_size(info, axis);
    if (fixed < 0) return told;
    if (told && *told != fixed)
        refuse(
            "--dim {}={}: the model fixes that dimension to {}. Fix: leave it out, or export the model with "
            "a "
            "dynamic one.",
            place_of(info, axis), *told, fixed);
    return fixed;
}

/// Returns the size of a dimension, dynamic ones as the options say.
int64_t Importer::size_of(const ValueInfo& info, size_t axis) {
    if (const std::optional<int64_t> known = known_size(info, axis)) return *known;
    const std::string name = dim_name(info, axis);
    if (batch_dims_.count(name) > 0) return options_.batch;
    note(fmt::format(
        "dimension {} of `{}` is dynamic: `{}` is taken as 1. Fix: give --dim {}=N for another size.", axis,
        info.name, name, name));
    return 1;
}

/// Puts a constant in the place of an input.
void Importer::bind_input(Scope& scope, const ValueInfo& info, const std::string& value) {
    std::optional<Sizes> shape;
    if (info.shaped) {
        shape.emplace();
        for (size_t d = 0; d < info.shape.size(); ++d) shape->push_back(known_size(info, d).value_or(-1));
    }
    try {
        define(scope, info.name, bound_operand(info, shape, value));
    } catch (const Unsupported& reason) {
        constexpr size_t most = 60;
        refuse("--bind {}={}: {}. Fix: give input `{}` a value of its type and shape; there are {}.",
               info.name, value.size() > most ? value.substr(0, most) + "..." : value, reason.what(),
               info.name, list_of_inputs());
    }
}

/// Returns "`x` float32 [1,?], `sr` int64 []"
std::string Importer::list_of_inputs() const {
    std::string text;
    for (const ValueInfo* info : inputs()) {
        std::string sizes;
        for (const Dimension& dimension : info->shape)
            sizes += fmt::format("{}{}", sizes.empty() ? "" : ",",
                                 dimension.size < 0 ? "?" : std::to_string(dimension.size));
        text += fmt::format("{}`{}` {} {}", text.empty() ? "" : ", ", info->name, name_of(info->type),
                            info->shaped ? fmt::format("[{}]", sizes) : "of any shape");
    }
    return text.empty() ? "no inputs" : text;
}

void Importer::add_input(Scope& scope, const ValueInfo& info) {
    if (!info.tensor)
        refuse("input `{}` is not a tensor. Fix: export the model with tensors as inputs.", info.name);
    const auto given = options_.bound.find(info.name);
    const auto follows = given != options_.bound.end() ? following(given->second) : std::nullopt;
    if (follows && !options_.positions.any())
        refuse("--bind {}={}: there are no positions. Fix: say how many there are: --positions N.", info.name,
               given->second);
    if (given != options_.bound.end() && !follows) return bind_input(scope, info, given->second);
    const ElemType elem = elem_of(info.type);
    if (elem == ElemType::none) {
        refuse("input `{}` has type {}, which is not taken. Fix: export it as float32 or an integer type.",
               info.name, name_of(info.type));
    }
    if (!info.shaped) refuse("input `{}` has no shape. Fix: export the model with shapes.", info.name);
    if (info.shape.size() > max_rank)
        refuse("input `{}` has {} dimensions, at most {} are possible. Fix: reshape it.", info.name,
               info.shape.size(), max_rank);
    Operand operand;
    operand.type = info.type;
    double elements = 1;
    for (size_t d = 0; d < info.shape.size(); ++d) {
        operand.shape.push_back(size_of(info, d));
        elements *= static_cast<double>(operand.shape.back());
    }
    if (elements > static_cast<double>(max_level_bytes) / 4)
        refuse("input `{}` {} has {} elements. Fix: use shapes that fit a memory.", info.name,
               text_of(operand.shape), elements);
    if (scope.values.count(info.name) != 0)
        refuse("the name `{}` is an input twice. Fix: rename one.", info.name);
    operand.sole = reads_[info.name] == 1;
    operand.value = graph_.add_input(info.name, elem, graph::dims(operand.shape));
    graph_.inputs.back().host = host_of(info.type);
    if (follows) std::tie(graph_.inputs.back().follows, graph_.inputs.back().plus) = *follows;
    if (elements == 0) {  // all of its content is known
        operand.value.reset();
        operand.known = std::make_shared<const Known>(Known{info.type, operand.shape, {}, {}});
    }
    look_at(scope, info.name, operand);
    define(scope, info.name, std::move(operand));
}

void Importer::add_inputs(Scope& scope) {
    set_batch();
    for (const ValueInfo* info : inputs()) add_input(scope, *info);
    std::string known;
    for (const ValueInfo& info : model_.graph.inputs) {
        for (size_t d = 0; d < info.shape.size(); ++d) {
            if (info.shape[d].size >= 0) continue;
            const std::string& name = info.shape[d].name;
            known += fmt::format("{}{}{}", known.empty() ? "" : ", ", place_of(info, d),
                                 name.empty() ? "" : fmt::format(" (`{}`)", name));
        }
    }
    for (const auto& [name, size] : options_.dims) {
        if (used_dims_.count(name) == 0)
            refuse("--dim {}={}: no input has such a dimension. Fix: {}.", name, size,
                   known.empty() ? "leave it out, all dimensions are fixed" : "use one of " + known);
    }
    for (const auto& [name, value] : options_.bound) {
        const std::vector<const ValueInfo*> all = inputs();
        if (std::none_of(all.begin(), all.end(),
                         [&n = name](const ValueInfo* info) { return info->name == n; }))
            refuse("--bind {}: the model has no such input. Fix: there are {}.", name, list_of_inputs());
    }
}

void Importer::add_outputs(Scope& scope) {
    std::set<std::string> names;
    Counts counts;
    for (const ValueInfo& info : model_.graph.outputs) {
        if (!names.insert(info.name).second)
            refuse("the name `{}` is an output twice. Fix: rename one.", info.name);
        const Operand* found = scope.find(info.name);
        if (found == nullptr) refuse("output `{}` is never made. Fix: export the model again.", info.name);
        if (!found->lost.empty()) continue;  // its node is in the list of unsupported ones
        Operand operand = *found;
        if (info.tensor && info.type != Type::undefined && info.type != operand.type) {
            refuse("output `{}` is declared {}, the nodes make {}. Fix: export the model again.", info.name,
                   name_of(info.type), name_of(operand.type));
        }
        const NodeModel none;
        Call call(graph_, none, 0, {}, {});
        call.empty_operands = true;
        try {
            const ValueId id = call.value(operand, info.name);
            graph_.outputs.push_back({info.name, id, graph_.value(id).elem, host_of(operand.type), {}});
            if (operand.count) counts.emplace_back(info.name, *operand.count);
        } catch (const Unsupported& reason) {
            refuse("output `{}`: {}. Fix: leave it out.", info.name, reason.what());
        }
        if (!operand.count) check_declared(info, operand.shape);
    }
    add_counts(counts, names);
    warn_of_declared();
}

/// Adds how much outputs hold whose length depends on data.
void Importer::add_counts(const Counts& counts, const std::set<std::string>& names) {
    for (const auto& [name, count] : counts) {
        if (names.count(name + ".count") != 0)
            refuse("`{}.count` is an output, but it is what says how much `{}` holds. Fix: rename it.", name,
                   name);
        graph_.outputs.push_back({name + ".count", count, ElemType::i32, graph::HostType::same, {}});
        note(fmt::format(
            "output `{}` has the length that it can have at most, filled with -1; output `{}.count` "
            "says how much it holds.",
            name, name));
    }
}

void Importer::warn_of_nan() {
    for (const graph::Value& value : graph_.values) {
        if (value.constant() && has_nan(value))
            notes_.warning(
                {model_.origin, 0, 0},
                fmt::format("constant `{}` holds NaN. Fix: check the training that made it.", value.name));
    }
}

// ---- entry points

namespace {

/// Parses N or N:STEP.
graph::Positions positions_of(const std::string& text) {
    if (text.empty()) return {};
    const size_t colon = text.find(':');
    const std::optional<int64_t> count = decimal(std::string_view(text).substr(0, colon));
    constexpr int64_t most_forms = 256;
    graph::Positions result;
    if (count) {
        result.count = *count;
        constexpr int64_t forms = 16,
                          quantum = 16;  // each of so many forms takes a few percent more than the last
        result.step = (*count + forms * quantum - 1) / (forms * quantum) * quantum;
    }
    if (colon != std::string::npos)
        result.step = decimal(std::string_view(text).substr(colon + 1)).value_or(0);
    if (result.count < 1 || result.step < 1 || result.count / result.step >= most_forms)
        throw UserError(fmt::format(
            "--positions {}: that is not how many positions there are, and how many rows are between two "
            "forms. Fix: use N or N:STEP, of 1 or more, with at most {} forms.",
            text, most_forms));
    return result;
}

}  // namespace

ImportOptions import_options(const OptionValues& given) {
    ImportOptions options;
    for (const auto& [name, size] : given.sizes("dim")) {
        const auto [place, added] = options.dims.emplace(name, size);
        if (!added && place->second != size)
            throw UserError(fmt::format("--dim gives `{}` two sizes: {} and {}. Fix: leave one of them out.",
                                        name, place->second, size));
    }
    for (const auto& [name, value] : given.pairs("bind")) {
        if (!options.bound.emplace(name, value).second)
            throw UserError(fmt::format("--bind gives `{}` two values. Fix: leave one of them out.", name));
    }
    options.positions = positions_of(given.text("positions"));
    if (!given.given("batch")) return options;
    options.batch = given.integer("batch");
    if (options.batch < 1)
        throw UserError(
            fmt::format("--batch {}: a run has 1 inference or more. Fix: use 1 or more.", options.batch));
    return options;
}

graph::Graph import_model(const std::string& path, const ImportOptions& options, Diagnostics& notes,
                          std::vector<NodeSupport>* nodes) {
    return with_model(path, [&](const Model& model) { return import_checked(model, options, notes, nodes); });
}

graph::Graph import_bytes(std::string_view bytes, const std::string& origin, const std::string& folder,
                          const ImportOptions& options, Diagnostics& notes, std::vector<NodeSupport>* nodes) {
    return import_checked(read_model(bytes, origin, folder, options.files), options, notes, nodes);
}

std::vector<NodeSupport> coverage(const std::string& path, const ImportOptions& options, Diagnostics& notes) {
    return with_model(path, [&](const Model& model) {
        Importer importer(model, options, notes);
        importer.run();
        return importer.support;
    });
}

}  // namespace kpu::onnx
