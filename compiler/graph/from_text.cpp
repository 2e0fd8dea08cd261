// Reads what to_text() writes. The text is untrusted: sizes are checked before anything is made of them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/digest.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/line.hpp"
#include "compiler/graph/read_data.hpp"
#include "compiler/graph/text.hpp"

namespace kpu::graph {
namespace {

constexpr int64_t most_elements = int64_t{1} << 40;
class Reader {
  public:
    Reader(const std::string& origin, std::string_view constants)
        : origin_(origin), constants_(constants), data_(constants) {}

    TextGraph read(std::string_view text) {
        uint32_t number = 0;
        while (!text.empty()) {
            const size_t end = std::min(text.find('\n'), text.size());
            Line line(text.substr(0, end), origin_, ++number);
            if (!line.at_end() && !line.take("#")) read_line(line);
            text.remove_prefix(std::min(text.size(), end + 1));
        }
        const Line last({}, origin_, number + 1);
        if (!begun_) last.fail("there is no graph", "begin with `graph NAME`");
        if (graph().outputs.empty())
            last.fail("the graph has no output", "write `output NAME: %VALUE TYPE host TYPE`");
        return std::move(result_);
    }

  private:
    Graph& graph() { return result_.graph; }

    void read_line(Line& line) {
        if (!begun_) {
            line.expect("graph");
            graph().name = line.name();
            begun_ = true;
        } else if (line.take("passed")) {
            result_.head.passed = static_cast<uint32_t>(line.integer(0, 1000));
        } else if (line.take("model")) {
            result_.head.model = line.name();
        } else if (line.take("constants")) {
            read_constants(line);
        } else if (line.take("positions")) {
            read_positions(line);
        } else if (line.take("input")) {
            read_port(line, graph().inputs, true);
        } else if (line.take("output")) {
            read_port(line, graph().outputs, false);
        } else if (line.take("constant")) {
            read_constant(line);
        } else if (line.take("absent")) {
            std::string name = line.name();
            graph().absent[std::move(name)] = line.name();
        } else if (line.take("gone")) {
            while (!line.at_end()) read_gone(line);
        } else if (line.take("values")) {
            read_order(line);
            return;
        } else {
            read_node(line);
        }
        line.finish();
    }

    void read_constants(Line& line) {
        const size_t place = line.place();
        const auto size = static_cast<uint64_t>(line.integer(0, INT64_MAX));
        line.expect("sha256");
        const std::string digest = line.name();
        if (constants_.empty()) return;
        if (constants_.size() != size || sha256_hex(constants_) != digest)
            line.fail_at(place, "the file of constants is not the one that belongs to the text",
                         "put it back, or take it away: constants then are made up");
    }

    void read_positions(Line& line) {
        Positions& of = graph().positions;
        of.count = line.integer(1, INT32_MAX);
        line.expect("step");
        of.step = line.integer(1, INT32_MAX);
        line.expect("rows");
        of.rows = line.integer(1, INT32_MAX);
    }

    // ---- types

    ElemType elem(Line& line) {
        const size_t place = line.place();
        const std::string name = line.name();
        const std::optional<ElemType> found = parse_elem_type(name);
        if (!found || *found == ElemType::none)
            line.fail_at(place, fmt::format("there is no element type `{}`", name), "write one such as f32");
        return *found;
    }

    Dims shape(Line& line) {
        const size_t place = line.place();
        const std::vector<int64_t> sizes = line.integers();
        if (sizes.size() > max_rank)
            line.fail_at(place, fmt::format("{} dimensions are too many", sizes.size()),
                         fmt::format("write at most {}", max_rank));
        int64_t elements = 1;
        for (const int64_t size : sizes) {
            if (size < 0 || size > INT32_MAX || (size > 0 && elements > most_elements / size))
                line.fail_at(place, "the tensor is too large", "write sizes of fewer elements");
            elements *= std::max<int64_t>(size, 1);
        }
        return dims(sizes);
    }

    Value typed(Line& line) {
        Value value;
        value.elem = elem(line);
        value.shape = shape(line);
        value.quant = quant(line, value.shape);
        return value;
    }

    static int64_t zero_point(Line& line) { return line.integer(INT32_MIN, UINT32_MAX); }

    BoundQuant quant(Line& line, const Dims& shape) {
        BoundQuant quant;
        if (line.take("scale")) {
            quant.kind = proto::Quant::PER_TENSOR;
            line.expect("=");
            quant.scales = {line.real()};
            line.expect("zero");
            line.expect("=");
            quant.zero_points = {zero_point(line)};
            return quant;
        }
        for (const auto kind :
             {proto::Quant::PER_TENSOR, proto::Quant::PER_CHANNEL, proto::Quant::PER_GROUP}) {
            if (!line.take(proto::Quant::Kind_Name(kind))) continue;
            quant.kind = kind;
            line.expect("axis");
            line.expect("=");
            quant.axis = static_cast<int>(line.integer(0, max_rank - 1));
            if (line.take("group_size")) {
                line.expect("=");
                quant.group_size = line.integer(1, INT32_MAX);
            }
            const size_t place = line.place();
            line.expect("scales");
            line.expect("=");
            quant.scales = line.reals();
            line.expect("zeros");
            line.expect("=");
            quant.zero_points = line.integers();
            check_scales(line, place, quant, shape);
            return quant;
        }
        return quant;
    }

    void check_scales(Line& line, size_t place, const BoundQuant& quant, const Dims& shape) {
        if (quant.kind != proto::Quant::PER_TENSOR && quant.axis >= shape.rank)
            line.fail_at(place, fmt::format("there is no axis {}", quant.axis), "write one of the tensor");
        const bool whole = quant.kind != proto::Quant::PER_CHANNEL ||
                           quant.scales.size() == static_cast<size_t>(shape[static_cast<size_t>(quant.axis)]);
        const bool zeros = quant.zero_points.empty() || quant.zero_points.size() == quant.scales.size();
        if (quant.scales.empty() || !whole || !zeros)
            line.fail_at(place, "scales and zeros are too many or too few",
                         "write one for each index of the axis");
    }

    // ---- values

    ValueId add(Line& line, size_t place, const std::string& name, Value value) {
        if (graph().taken(name))
            line.fail_at(place, fmt::format("`{}` is there already", name), "write another name");
        const ValueId id = graph().add_value(name, value.elem, value.shape, std::move(value.quant));
        ids_[name] = id;
        return id;
    }

    ValueId known(Line& line) {
        const size_t place = line.place();
        const std::string name = line.value_name();
        const auto found = ids_.find(name);
        if (found == ids_.end())
            line.fail_at(place, fmt::format("there is no value `{}` yet", name),
                         "write the line that makes it before");
        return found->second;
    }

    void read_port(Line& line, std::vector<Port>& ports, bool input) {
        Port port;
        port.name = line.name();
        line.expect(":");
        const size_t place = line.place();
        if (input) {
            const std::string name = line.value_name();
            port.value = add(line, place, name, typed(line));
        } else {
            port.value = known(line);
            const size_t type = line.place();
            const Value stated = typed(line);
            const Value& value = graph().value(port.value);
            if (stated.elem != value.elem || !(stated.shape == value.shape))
                line.fail_at(type, "the output has another type than its value", "write that of the value");
        }
        line.expect("host");
        read_host(line, port);
        if (line.take("perm")) {
            line.expect("=");
            read_perm(line, port);
        }
        ports.push_back(std::move(port));
    }

    void read_host(Line& line, Port& port) {
        static constexpr std::pair<std::string_view, HostType> wide[] = {{"i64", HostType::int64},
                                                                         {"bool", HostType::boolean},
                                                                         {"u64", HostType::uint64},
                                                                         {"f64", HostType::float64}};
        for (const auto& [name, type] : wide) {
            if (!line.take(name)) continue;
            port.host = type;
            line.expect("as");
            break;
        }
        port.elem = elem(line);
        if (!line.take("follows")) return;
        port.follows = line.take("up_to") ? Follows::up_to : Follows::position;
        if (port.follows == Follows::position) line.expect("position");
        line.expect("plus");
        line.expect("=");
        port.plus = line.integer(INT32_MIN, INT32_MAX);
    }

    void read_perm(Line& line, Port& port) {
        const size_t place = line.place();
        const std::vector<int64_t> perm = line.integers();
        std::vector<int64_t> sorted = perm;
        std::sort(sorted.begin(), sorted.end());
        const size_t rank = graph().value(port.value).shape.rank;
        bool whole = perm.size() == rank;
        for (size_t i = 0; whole && i < rank; ++i) whole = sorted[i] == static_cast<int64_t>(i);
        if (!whole) line.fail_at(place, "this is not an order of the dimensions", "write each of them once");
        port.perm.assign(perm.begin(), perm.end());
    }

    // ---- constants

    void read_constant(Line& line) {
        const size_t place = line.place();
        const std::string name = line.value_name();
        Value value = typed(line);
        line.expect("=");
        const ElemType elem = value.elem;
        const Dims shape = value.shape;
        bool made_up = false;
        Data data = data_.read(line, elem, shape, made_up);
        std::shared_ptr<const Blocks> blocks;
        if (line.take("blocks")) blocks = read_blocks(line, shape, made_up);
        const ValueId id = add(line, place, name, std::move(value));
        graph().value(id).data = std::move(data);
        graph().value(id).blocks = std::move(blocks);
        if (made_up)
            graph().absent.emplace(name, "the text has no bytes of it, and there is no file of constants");
    }

    std::shared_ptr<const Blocks> read_blocks(Line& line, const Dims& whole, bool& made_up) {
        auto blocks = std::make_shared<Blocks>();
        line.expect("axis");
        line.expect("=");
        blocks->axis = static_cast<size_t>(line.integer(0, std::max<int64_t>(0, whole.rank - 1)));
        line.expect("size");
        line.expect("=");
        blocks->size = line.integer(1, INT32_MAX);
        const size_t place = line.place();
        blocks->elem = elem(line);
        blocks->shape = shape(line);
        Dims wanted = whole;
        if (whole.rank > 0) wanted[blocks->axis] = (whole[blocks->axis] + blocks->size - 1) / blocks->size;
        if (!(blocks->shape == wanted) || !is_float(blocks->elem))
            line.fail_at(place, "the scales of the blocks have another type",
                         fmt::format("write floats of {}", shape_text(wanted)));
        line.expect("steps");
        line.expect("=");
        blocks->steps = data_.read(line, ElemType::i4, whole, made_up);
        line.expect("scales");
        line.expect("=");
        blocks->scales = data_.read(line, blocks->elem, blocks->shape, made_up);
        if (line.take("zeros")) {
            line.expect("=");
            blocks->zero_points = data_.read(line, blocks->elem, blocks->shape, made_up);
        }
        return blocks;
    }

    // ---- nodes

    void read_node(Line& line) {
        const size_t begin = line.place();
        std::vector<std::pair<size_t, std::string>> outputs;
        do {
            const size_t place = line.place();
            outputs.emplace_back(place, line.value_name());
        } while (line.take(","));
        line.expect("=");
        const size_t at = line.place();
        const std::string opcode = line.name();
        const std::optional<OpcodeId> id = kernels::find_spec(opcode);
        if (!id)
            line.fail_at(at, fmt::format("there is no operation `{}`", opcode), "see `kpusim list opcodes`");
        Node node;
        node.opcode = *id;
        read_operands(line, node);
        if (line.take("{")) read_attributes(line, node);
        for (const AttrSpec& spec : node.spec().attributes) {
            if (spec.required && node.attrs.find(spec.name) == nullptr)
                line.fail_at(begin, fmt::format("{} lacks its attribute `{}`", opcode, spec.name),
                             fmt::format("write {{{}=...}}, {}", spec.name, spec.meaning));
        }
        std::vector<Value> values;
        for (size_t i = 0; i < outputs.size(); ++i) {
            if (i > 0) line.expect(",");
            values.push_back(typed(line));
        }
        check_node(line, begin, node, values);
        for (size_t i = 0; i < outputs.size(); ++i)
            node.outputs.push_back(add(line, outputs[i].first, outputs[i].second, std::move(values[i])));
        read_origin(line, node);
        graph().nodes.push_back(std::move(node));
    }

    void read_operands(Line& line, Node& node) {
        line.expect("(");
        while (!line.take(")")) {
            if (!node.inputs.empty()) line.expect(",");
            node.inputs.push_back(known(line));
        }
    }

    void check_node(Line& line, size_t begin, const Node& node, const std::vector<Value>& outputs) {
        std::vector<TypedShape> operands;
        for (const ValueId id : node.inputs)
            operands.push_back({graph().value(id).elem, graph().value(id).shape});
        std::vector<Dims> wanted;
        std::string wrong;
        try {
            wanted = infer(node.spec(), operands, node.attrs);
        } catch (const UserError& error) {
            wrong = error.what();
        }
        if (!wrong.empty()) {
            const size_t fix = wrong.rfind(". Fix: ");
            line.fail_at(begin, wrong.substr(0, fix), "make operands and attributes fit");
        }
        if (wanted.size() != outputs.size())
            line.fail_at(begin, fmt::format("it has {} outputs", wanted.size()), "write each with its type");
        for (size_t i = 0; i < wanted.size(); ++i) {
            if (!(outputs[i].shape == wanted[i]))
                line.fail_at(begin, fmt::format("output {} is {}", i, shape_text(wanted[i])),
                             "write that shape");
        }
    }

    void read_attributes(Line& line, Node& node) {
        while (!line.take("}")) {
            const size_t place = line.place();
            const std::string name = line.name();
            const std::vector<AttrSpec>& specs = node.spec().attributes;
            const auto spec = std::find_if(specs.begin(), specs.end(),
                                           [&](const AttrSpec& row) { return row.name == name; });
            if (spec == specs.end() || node.attrs.find(name) != nullptr)
                line.fail_at(place, fmt::format("`{}` is not another attribute of it", name),
                             "see `kpusim list opcodes`");
            line.expect("=");
            node.attrs.list.push_back(attribute(line, *spec));
        }
    }

    BoundAttr attribute(Line& line, const AttrSpec& spec) {
        const std::string name(spec.name);
        switch (spec.kind) {
            case AttrKind::integer:
                return graph::integer(name, line.integer(INT64_MIN, INT64_MAX));
            case AttrKind::boolean:
                if (line.take("true")) return graph::integer(name, 1);
                line.expect("false");
                return graph::integer(name, 0);
            case AttrKind::real:
                return graph::real(name, line.real());
            case AttrKind::ints:
                return graph::ints(name, line.integers());
            case AttrKind::reals:
                return graph::reals(name, line.reals());
            case AttrKind::elem_type:
                return graph::type(name, elem(line));
            case AttrKind::text:
            case AttrKind::word:
                return graph::word(name, line.name());
        }
        throw InternalError("graph: an attribute of an unknown kind");
    }

    Source source(Line& line) {
        Source source;
        source.name = line.name();
        if (line.take(":")) source.type = line.name();
        return source;
    }

    void read_origin(Line& line, Node& node) {
        if (line.take("from")) {
            node.source = source(line);
            while (line.take("+")) node.absorbed.push_back(source(line));
        }
        if (line.take("group")) node.group = static_cast<uint32_t>(line.integer(1, UINT32_MAX));
        node.anchor = line.take("anchor");
        node.alone = line.take("alone");
        if (line.take("strips")) node.strips = static_cast<uint32_t>(line.integer(1, INT32_MAX));
        if (line.take("kept")) node.kept = elem(line);
    }

    void read_gone(Line& line) {
        const size_t place = line.place();
        std::string name = line.name();
        if (graph().taken(name))
            line.fail_at(place, fmt::format("`{}` is there already", name), "write another name");
        graph().take_name(std::move(name));
    }

    /// Gives values the ids that they had.
    void read_order(Line& line) {
        const size_t place = line.place();
        std::vector<ValueId> moved(graph().values.size(), UINT32_MAX);
        ValueId next = 0;
        while (!line.at_end()) {
            const size_t at = line.place();
            const ValueId id = known(line);
            if (moved[id] != UINT32_MAX) line.fail_at(at, "the value stands twice", "write it once");
            moved[id] = next++;
        }
        if (next != moved.size()) line.fail_at(place, "some values are missing", "write each once");
        std::vector<Value> values(moved.size());
        for (ValueId id = 0; id < moved.size(); ++id) values[moved[id]] = std::move(graph().values[id]);
        graph().values = std::move(values);
        for (auto& [name, id] : ids_) id = moved[id];
        for (Node& node : graph().nodes) {
            for (ValueId& id : node.inputs) id = moved[id];
            for (ValueId& id : node.outputs) id = moved[id];
        }
        for (Port& port : graph().inputs) port.value = moved[port.value];
        for (Port& port : graph().outputs) port.value = moved[port.value];
    }

    const std::string& origin_;
    std::string_view constants_;
    TextGraph result_;
    bool begun_ = false;
    std::unordered_map<std::string, ValueId> ids_;
    ConstantReader data_;
};

}  // namespace

TextGraph from_text(std::string_view text, const std::string& origin, std::string_view constants) {
    return Reader(origin, constants).read(text);
}

bool is_graph_text(std::string_view head) {
    while (!head.empty()) {
        const size_t end = std::min(head.find('\n'), head.size());
        const std::string_view line = head.substr(0, end);
        if (!line.empty() && line[0] != '#') return line.substr(0, 6) == "graph ";
        head.remove_prefix(std::min(head.size(), end + 1));
    }
    return false;
}

}  // namespace kpu::graph
