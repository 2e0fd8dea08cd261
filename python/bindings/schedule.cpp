#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <variant>

#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/lower.hpp"
#include "compiler/tile_schedule/scheduler.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/schedule_engine/engine.hpp"

namespace kpu::bindings {
namespace {

using namespace tile_schedule;

using TensorName = std::variant<uint32_t, std::string>;
using Coordinates = std::pair<uint32_t, uint32_t>;

/// An op whose tensor may be given by name: `name` beats the id.
template <class Kind>
struct NamedOp {
    Kind op;
    std::string name;

    void set_tensor(const TensorName& tensor) {
        if (const auto* text = std::get_if<std::string>(&tensor)) {
            if (text->empty())
                throw UserError("the name of the op's tensor is empty. Fix: give its name or its id.");
            name = *text;
        } else {
            op.tensor_id = std::get<uint32_t>(tensor);
        }
    }
    py::object tensor() const {
        return name.empty() ? py::object(py::int_(op.tensor_id)) : py::object(py::str(name));
    }
    bool operator==(const NamedOp& other) const { return op == other.op && name == other.name; }
};
using NamedLoad = NamedOp<Load>;
using NamedStore = NamedOp<Store>;

int32_t buffer_of(std::optional<int32_t> buffer) { return buffer.value_or(-1); }

NamedLoad make_load(const TensorName& tensor, uint32_t row, uint32_t col, uint32_t dst, uint32_t bytes,
                    std::optional<int32_t> buffer) {
    NamedLoad load{{0, row, col, dst, bytes, buffer_of(buffer)}, {}};
    load.set_tensor(tensor);
    return load;
}

NamedStore make_store(const TensorName& tensor, uint32_t row, uint32_t col, uint32_t src, uint32_t bytes,
                      bool relu, std::optional<int32_t> buffer) {
    NamedStore store{{0, row, col, src, bytes, relu ? Activation::relu : Activation::none, buffer_of(buffer)},
                     {}};
    store.set_tensor(tensor);
    return store;
}

bool is_relu(const std::variant<bool, std::string, std::monostate>& activation) {
    if (const auto* flag = std::get_if<bool>(&activation)) return *flag;
    const auto* text = std::get_if<std::string>(&activation);
    if (text != nullptr && *text != "relu" && *text != "none")
        throw UserError(fmt::format("activation `{}`. Fix: relu or none.", *text));
    return text != nullptr && *text == "relu";
}

/// A list of ops, and which of them name their tensor instead of giving its id.
struct OpList {
    std::vector<Op> ops;
    std::vector<std::pair<uint32_t, std::string>> names;

    /// `id_of` gives the id of a name, or throws UserError.
    template <class IdOf>
    void resolve(const IdOf& id_of) {
        for (const auto& [index, name] : names) {
            try {
                const uint32_t id = id_of(name);
                if (auto* load = std::get_if<Load>(&ops[index])) load->tensor_id = id;
                if (auto* store = std::get_if<Store>(&ops[index])) store->tensor_id = id;
            } catch (const UserError& error) {
                Diagnostics diagnostics;
                diagnostics.error({}, fmt::format("op {}: {}", index, error.what()));
                throw ScheduleError(FaultKind::unknown_tensor, index, std::move(diagnostics));
            }
        }
    }
};

OpList ops_of(const py::sequence& list) {
    const py::handle load_type = py::type::of<NamedLoad>(), execute_type = py::type::of<Execute>(),
                     store_type = py::type::of<NamedStore>();
    OpList result;
    const auto add = [&](const auto& named) {
        if (!named.name.empty())
            result.names.emplace_back(static_cast<uint32_t>(result.ops.size()), named.name);
        result.ops.emplace_back(named.op);
    };
    const size_t count = list.size();
    result.ops.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        const py::object item = list[i];
        const py::handle type = py::type::handle_of(item);
        if (type.is(load_type)) {
            add(item.cast<const NamedLoad&>());
        } else if (type.is(execute_type)) {
            result.ops.emplace_back(item.cast<const Execute&>());
        } else if (type.is(store_type)) {
            add(item.cast<const NamedStore&>());
        } else {
            throw UserError(
                fmt::format("op {} is of type `{}`. Fix: give SchedLoad, SchedExecute or SchedStore.", i,
                            std::string(py::str(type.attr("__name__")))));
        }
    }
    return result;
}

/// Ops as the package knows them, with the names of their tensors where there is a header.
py::list list_of(const std::vector<Op>& ops, const Header& header) {
    const auto name_of_tensor = [&](uint32_t id) {
        const Tensor* tensor = header.find(id);
        return tensor != nullptr ? tensor->name : std::string();
    };
    py::list list;
    for (const Op& op : ops) {
        if (const auto* load = std::get_if<Load>(&op)) {
            list.append(NamedLoad{*load, name_of_tensor(load->tensor_id)});
        } else if (const auto* store = std::get_if<Store>(&op)) {
            list.append(NamedStore{*store, name_of_tensor(store->tensor_id)});
        } else {
            list.append(std::get<Execute>(op));
        }
    }
    return list;
}

ElemType elem_of(const std::string& name) {
    const auto elem = parse_elem_type(name);
    if (!elem)
        throw UserError(fmt::format("`{}` is not an element type. Fix: f32, f16, bf16, i8 or i32.", name));
    return *elem;
}

/// (name, rows, columns, role, type, scale)
using TensorRow = std::tuple<std::string, uint64_t, uint64_t, std::string, std::string, double>;

Tensor tensor_of(const TensorRow& row) {
    const auto& [name, rows, cols, role, elem, scale] = row;
    Tensor tensor;
    tensor.name = name;
    tensor.rows = static_cast<uint32_t>(std::min<uint64_t>(rows, UINT32_MAX));
    tensor.cols = static_cast<uint32_t>(std::min<uint64_t>(cols, UINT32_MAX));
    static constexpr Role roles[] = {Role::any, Role::input, Role::weight, Role::intermediate, Role::output};
    const auto* found = std::find_if(std::begin(roles), std::end(roles),
                                     [&, &wanted = role](Role each) { return name_of(each) == wanted; });
    if (found == std::end(roles))
        throw UserError(fmt::format("`{}` is not a role. Fix: input, weight, intermediate or output.", role));
    tensor.role = *found;
    tensor.elem = elem_of(elem);
    tensor.scale = scale;
    return tensor;
}

py::list tensor_rows(const Header& header) {
    py::list rows;
    for (const Tensor& t : header.tensors)
        rows.append(py::make_tuple(t.id, t.name, t.rows, t.cols, name_of(t.role), name_of(t.elem), t.scale));
    return rows;
}

/// An engine that several threads may use, one at a time.
class SharedEngine {
  public:
    explicit SharedEngine(const EngineConfig& config) : engine_(config) {}

    /// Calls without the GIL, alone on the engine.
    template <class Call>
    auto with(const Call& call) {
        const py::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(mutex_);
        return call(engine_);
    }

    void execute(const py::object& schedule) {
        if (PyObject_CheckBuffer(schedule.ptr()) != 0) {
            const py::buffer_info info = py::reinterpret_borrow<py::buffer>(schedule).request();
            if (PyBuffer_IsContiguous(info.view(), 'C') == 0)
                throw UserError("the bytes of a schedule do not lie together. Fix: give bytes.");
            const std::string bytes(static_cast<const char*>(info.ptr),
                                    static_cast<size_t>(info.size * info.itemsize));
            return with([&](Engine& engine) { engine.execute_packed(bytes); });
        }
        if (!py::isinstance<py::sequence>(schedule) || py::isinstance<py::str>(schedule))
            throw UserError(
                "a schedule is the bytes of its packed form, or a list of ops. Fix: give one of them.");
        OpList list = ops_of(py::reinterpret_borrow<py::sequence>(schedule));
        with([&](Engine& engine) {
            list.resolve([&](const std::string& name) { return engine.tensors().name_to_id(name); });
            engine.execute(list.ops);
        });
    }

    /// Returns (rows, columns, type).
    py::tuple describe(const std::string& name) {
        const Tensor tensor =
            with([&](Engine& engine) { return engine.tensors().tensor(engine.tensors().name_to_id(name)); });
        return py::make_tuple(tensor.rows, tensor.cols, name_of(tensor.elem));
    }

  private:
    Engine engine_;
    std::mutex mutex_;
};

void bind_ops(py::module_& module) {
    using py::arg;
    py::class_<NamedLoad>(module, "SchedLoad")
        .def(py::init([](const TensorName& tensor, const Coordinates& coord, uint32_t dst, uint32_t bytes,
                         std::optional<int32_t> buffer) {
                 return make_load(tensor, coord.first, coord.second, dst, bytes, buffer);
             }),
             arg("tensor"), arg("coord"), arg("dst_addr"), arg("bytes"), arg("buffer") = -1)
        .def(py::init(&make_load), arg("tensor_id"), arg("tile_row"), arg("tile_col"), arg("dst_addr"),
             arg("bytes"), arg("buffer") = -1)
        .def_property_readonly("tensor", &NamedLoad::tensor)
        .def_property_readonly("coord",
                               [](const NamedLoad& l) { return Coordinates(l.op.tile_row, l.op.tile_col); })
        .def_property_readonly("dst_addr", [](const NamedLoad& l) { return l.op.dst_addr; })
        .def_property_readonly("bytes", [](const NamedLoad& l) { return l.op.bytes; })
        .def_property_readonly("buffer", [](const NamedLoad& l) { return l.op.buffer; })
        .def(
            "__eq__", [](const NamedLoad& a, const NamedLoad& b) { return a == b; }, py::is_operator())
        .def("__repr__", [](const NamedLoad& l) {
            return fmt::format("SchedLoad({}, ({}, {}), dst_addr={}, bytes={}, buffer={})",
                               std::string(py::repr(l.tensor())), l.op.tile_row, l.op.tile_col, l.op.dst_addr,
                               l.op.bytes, l.op.buffer);
        });
    py::class_<Execute>(module, "SchedExecute")
        .def(py::init([](uint32_t m, uint32_t n, uint32_t k, uint32_t a, uint32_t b, uint32_t acc,
                         std::optional<int32_t> buffer) {
                 return Execute{m, n, k, a, b, acc, buffer_of(buffer)};
             }),
             arg("m"), arg("n"), arg("k"), arg("a_addr"), arg("b_addr"), arg("acc_addr"), arg("buffer") = -1)
        .def_readonly("m", &Execute::m)
        .def_readonly("n", &Execute::n)
        .def_readonly("k", &Execute::k)
        .def_readonly("a_addr", &Execute::a_addr)
        .def_readonly("b_addr", &Execute::b_addr)
        .def_readonly("acc_addr", &Execute::acc_addr)
        .def_readonly("buffer", &Execute::buffer)
        .def(
            "__eq__", [](const Execute& a, const Execute& b) { return a == b; }, py::is_operator())
        .def("__repr__", [](const Execute& e) {
            return fmt::format("SchedExecute(m={}, n={}, k={}, a_addr={}, b_addr={}, acc_addr={}, buffer={})",
                               e.m, e.n, e.k, e.a_addr, e.b_addr, e.acc_addr, e.buffer);
        });
    using Choice = std::variant<bool, std::string, std::monostate>;
    py::class_<NamedStore>(module, "SchedStore")
        .def(py::init([](const TensorName& tensor, const Coordinates& coord, uint32_t src, uint32_t bytes,
                         const Choice& activation, std::optional<int32_t> buffer) {
                 return make_store(tensor, coord.first, coord.second, src, bytes, is_relu(activation),
                                   buffer);
             }),
             arg("tensor"), arg("coord"), arg("src_addr"), arg("bytes"), arg("activation") = py::none(),
             arg("buffer") = -1)
        .def(py::init(&make_store), arg("tensor_id"), arg("tile_row"), arg("tile_col"), arg("src_addr"),
             arg("bytes"), arg("apply_relu") = false, arg("buffer") = -1)
        .def_property_readonly("tensor", &NamedStore::tensor)
        .def_property_readonly("coord",
                               [](const NamedStore& s) { return Coordinates(s.op.tile_row, s.op.tile_col); })
        .def_property_readonly("src_addr", [](const NamedStore& s) { return s.op.src_addr; })
        .def_property_readonly("bytes", [](const NamedStore& s) { return s.op.bytes; })
        .def_property_readonly("apply_relu",
                               [](const NamedStore& s) { return s.op.activation == Activation::relu; })
        .def_property_readonly(
            "activation",
            [](const NamedStore& s) { return s.op.activation == Activation::relu ? "relu" : "none"; })
        .def_property_readonly("buffer", [](const NamedStore& s) { return s.op.buffer; })
        .def(
            "__eq__", [](const NamedStore& a, const NamedStore& b) { return a == b; }, py::is_operator())
        .def("__repr__", [](const NamedStore& s) {
            return fmt::format("SchedStore({}, ({}, {}), src_addr={}, bytes={}, activation='{}', buffer={})",
                               std::string(py::repr(s.tensor())), s.op.tile_row, s.op.tile_col, s.op.src_addr,
                               s.op.bytes, s.op.activation == Activation::relu ? "relu" : "none",
                               s.op.buffer);
        });
}

void bind_engine(py::module_& module) {
    using py::arg;
    py::class_<SharedEngine>(module, "ScheduleEngine")
        .def(py::init([](uint64_t sram_bytes, bool trace, uint32_t tile, const std::string& elem,
                         const std::string& platform) {
                 EngineConfig config{sram_bytes, trace, tile, elem_of(elem), platform};
                 return std::make_unique<SharedEngine>(config);
             }),
             arg("sram_bytes"), arg("trace"), arg("tile"), arg("elem"), arg("platform"))
        .def(
            "register_tensor",
            [](SharedEngine& engine, const std::string& name, uint64_t rows, uint64_t cols,
               const std::string& elem, double scale) {
                const ElemType type = elem.empty() ? ElemType::none : elem_of(elem);
                return engine.with(
                    [&](Engine& e) { return e.register_tensor(name, rows, cols, type, scale); });
            },
            arg("name"), arg("rows"), arg("cols"), arg("elem"), arg("scale"))
        .def("describe", &SharedEngine::describe, arg("name"))
        .def(
            "set_tensor",
            [](SharedEngine& engine, const std::string& name, const py::buffer& array) {
                const py::buffer_info info = array.request();
                if (PyBuffer_IsContiguous(info.view(), 'C') == 0)
                    throw InternalError("an array is not in C order");
                engine.with(
                    [&](Engine& e) { e.set_tensor(name, info.ptr, static_cast<uint64_t>(info.size)); });
            },
            arg("name"), arg("array"))
        .def(
            "get_tensor",
            [](SharedEngine& engine, const std::string& name, const py::buffer& array) {
                const py::buffer_info info = array.request(true);
                if (PyBuffer_IsContiguous(info.view(), 'C') == 0)
                    throw InternalError("an array is not in C order");
                engine.with(
                    [&](Engine& e) { e.get_tensor(name, info.ptr, static_cast<uint64_t>(info.size)); });
            },
            arg("name"), arg("array"))
        .def("execute", &SharedEngine::execute, arg("schedule"))
        .def("counts",
             [](SharedEngine& engine) {
                 const EngineStats stats = engine.with([](Engine& e) { return e.stats(); });
                 return py::make_tuple(stats.loads, stats.executes, stats.stores);
             })
        .def("timing",
             [](SharedEngine& engine) {
                 const ScheduleTiming timing = engine.with([](Engine& e) { return e.timing(); });
                 return py::make_tuple(timing.cycles, timing.dma_busy, timing.compute_busy, timing.overlap());
             })
        .def("trace", [](SharedEngine& engine) { return engine.with([](Engine& e) { return e.trace(); }); });
}

/// Kind, inputs, output.
using NodeRow = std::tuple<std::string, std::vector<std::string>, std::string>;

Graph graph_of(const std::vector<TensorRow>& tensors, const std::vector<NodeRow>& nodes) {
    Graph graph;
    for (const TensorRow& row : tensors) graph.tensors.push_back(tensor_of(row));
    for (const auto& [kind, inputs, output] : nodes) {
        const Node::Kind kinds[] = {Node::Kind::matmul, Node::Kind::relu, Node::Kind::add};
        const auto* found = std::find_if(std::begin(kinds), std::end(kinds),
                                         [&, wanted = kind](Node::Kind k) { return name_of(k) == wanted; });
        if (found == std::end(kinds))
            throw UserError(fmt::format("`{}` cannot be scheduled. Fix: MatMul, ReLU and Add can.", kind));
        graph.nodes.push_back({*found, inputs, output});
    }
    return graph;
}

Format format_of(uint32_t tile, const std::string& elem) {
    Format format;
    format.tile = tile;
    format.elem = elem_of(elem);
    return format;
}

/// A schedule with its header, as files carry it.
void bind_schedule_files(py::module_& module) {
    using py::arg;
    using Release = py::call_guard<py::gil_scoped_release>;
    py::class_<Schedule>(module, "Schedule")
        .def_property_readonly("ops", [](const Schedule& s) { return list_of(s.ops, s.header); })
        .def_property_readonly("tensors", [](const Schedule& s) { return tensor_rows(s.header); })
        .def_property_readonly("has_header", [](const Schedule& s) { return s.has_header; })
        .def_property_readonly("tile", [](const Schedule& s) { return s.header.format.tile; })
        .def_property_readonly("elem", [](const Schedule& s) { return name_of(s.header.format.elem); })
        .def("write",
             [](const Schedule& s, const std::string& form) {
                 const auto known = parse_form(form);
                 if (!known)
                     throw UserError(
                         fmt::format("`{}` is not a form. Fix: text, packed, protobuf or json.", form));
                 return py::bytes(write_schedule(s, *known));
             })
        .def(
            "program",
            [](const Schedule& s, uint64_t arena_bytes) {
                if (!s.has_header)
                    throw UserError("the schedule has no header. Fix: give one when it is read.");
                AnalysisOptions options;
                options.arena_bytes = arena_bytes;
                Program program;
                const Analysis analysis = analyse(s, options);
                program.module = std::make_shared<Module>(lower(s, analysis, "schedule"));
                report(analysis, s, program.findings);
                return program;
            },
            arg("arena_bytes"), Release());
    module.def(
        "read_schedule",
        [](const std::string& bytes, const std::string& origin, const std::string& header,
           const std::string& header_origin) {
            Schedule schedule = read_schedule(bytes, origin);
            if (!header.empty()) set_header(schedule, read_header(header, header_origin));
            return schedule;
        },
        arg("bytes"), arg("origin"), arg("header"), arg("header_origin"), Release());
    module.def(
        "pack_ops",
        [](const py::sequence& ops, const std::vector<std::string>& names) {
            OpList list = ops_of(ops);
            list.resolve([&](const std::string& name) {
                const auto found = std::find(names.begin(), names.end(), name);
                if (found == names.end()) throw UserError(fmt::format("there is no tensor `{}`.", name));
                return static_cast<uint32_t>(found - names.begin());
            });
            Schedule schedule;
            schedule.origin = "schedule";
            schedule.ops = std::move(list.ops);
            return py::bytes(write_schedule(schedule, Form::packed));
        },
        arg("ops"), arg("names"));
    module.def(
        "fuse_nodes",
        [](const std::vector<TensorRow>& tensors, const std::vector<NodeRow>& nodes, uint32_t tile,
           const std::string& elem) {
            std::vector<std::tuple<std::vector<size_t>, uint32_t, uint32_t, uint32_t>> all;
            for (const FusedNodes& set : fuse_nodes(graph_of(tensors, nodes), format_of(tile, elem)))
                all.emplace_back(set.nodes, set.rows, set.cols, set.k);
            return all;
        },
        arg("tensors"), arg("nodes"), arg("tile"), arg("elem"), Release());
    module.def(
        "schedule_graph",
        [](const std::vector<TensorRow>& tensors, const std::vector<NodeRow>& nodes, uint32_t tile,
           const std::string& elem, uint64_t sram_bytes) {
            SchedulerReport report;
            Schedule schedule =
                schedule_graph(graph_of(tensors, nodes), format_of(tile, elem), sram_bytes, &report);
            return std::make_pair(std::move(schedule),
                                  std::make_tuple(report.loads, report.executes, report.stores,
                                                  report.loads_without_reuse, report.peak_bytes));
        },
        arg("tensors"), arg("nodes"), arg("tile"), arg("elem"), arg("sram_bytes"), Release());
}

}  // namespace

void bind_schedule(py::module_& module) {
    bind_ops(module);
    bind_engine(module);
    bind_schedule_files(module);
}

}  // namespace kpu::bindings
