#pragma once
// Bound programs made by hand, so that these tests depend on no front end.

#include <string>
#include <utility>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::execution::test {

inline BoundExpr constant(int64_t value) {
    BoundExpr expr;
    expr.constant = value;
    return expr;
}

/// Returns base + step * (variable of the enclosing loop at `depth`).
inline BoundExpr affine(int64_t base, int64_t step, int64_t depth) {
    BoundExpr expr;
    expr.kinds = {proto::ExprToken::INT, proto::ExprToken::INT, proto::ExprToken::LOOP, proto::ExprToken::MUL,
                  proto::ExprToken::ADD};
    expr.values = {base, step, depth, 0, 0};
    return expr;
}

class ProgramMaker {
  public:
    BoundProgram program;

    ProgramMaker() { program.name = "test"; }

    /// Adds a task; returns the index of the statement, which is what deps and waits take.
    uint32_t task(const std::string& name, std::vector<uint32_t> deps = {}, UnitKind unit = UnitKind::dma) {
        BoundTask made;
        made.kind = proto::Task::COMPUTE;
        made.name = name;
        made.deps = std::move(deps);
        made.unit = unit;
        made.op = static_cast<uint32_t>(program.ops.size());
        program.ops.push_back({name, "test", 0, 0, {}, {}, 0});
        program.tasks.push_back(made);
        return add(BoundStatement::Kind::task, program.tasks.size() - 1);
    }
    BoundTask& at(uint32_t statement) { return program.tasks[program.statements[statement].index]; }

    uint32_t wait(std::vector<uint32_t> deps) {
        program.waits.push_back(std::move(deps));
        return add(BoundStatement::Kind::wait, program.waits.size() - 1);
    }

    uint32_t loop(const std::string& variable, BoundExpr first, BoundExpr last, uint64_t window) {
        BoundLoop made;
        made.variable = variable;
        made.first = std::move(first);
        made.last = std::move(last);
        made.max_in_flight = window;
        made.depth = static_cast<uint16_t>(open_.size());
        program.loops.push_back(made);
        const uint32_t statement = add(BoundStatement::Kind::loop, program.loops.size() - 1);
        open_.push_back(statement);
        return statement;
    }
    uint32_t loop(const std::string& variable, int64_t first, int64_t last, uint64_t window) {
        return loop(variable, constant(first), constant(last), window);
    }
    void end() {
        program.loops[program.statements[open_.back()].index].body_end =
            static_cast<uint32_t>(program.statements.size());
        open_.pop_back();
    }

    /// Buffers of a level lie one after the other.
    uint32_t buffer(const std::string& name, Level level, uint64_t size, uint16_t engine = 0) {
        uint64_t base = 0;
        for (const BoundBuffer& other : program.buffers) {
            if (other.level == level && other.engine == engine) base = other.base + other.size;
        }
        program.buffers.push_back({name, level, engine, base, size});
        if (level == Level::ddr) program.ddr_bytes = base + size;
        if (level == Level::l2) program.l2_bytes = base + size;
        if (level == Level::l1) {
            if (program.l1_bytes.size() <= engine) program.l1_bytes.resize(engine + 1u);
            program.l1_bytes[engine] = base + size;
        }
        return static_cast<uint32_t>(program.buffers.size() - 1);
    }

    /// Adds an untyped window; `offset` counts from the buffer's base.
    uint32_t region(const std::string& name, uint32_t buffer_index, BoundExpr offset, uint64_t extent) {
        const BoundBuffer& home = program.buffers[buffer_index];
        BoundRegion made;
        made.name = name;
        made.buffer = buffer_index;
        made.level = home.level;
        made.engine = home.engine;
        made.address = std::move(offset);
        made.extent = extent;
        if (made.address.is_constant()) {
            made.address.constant += static_cast<int64_t>(home.base);
        } else {
            made.address.values[0] += static_cast<int64_t>(home.base);
        }
        program.regions.push_back(made);
        return static_cast<uint32_t>(program.regions.size() - 1);
    }
    uint32_t region(const std::string& name, uint32_t buffer_index, int64_t offset, uint64_t extent) {
        return region(name, buffer_index, constant(offset), extent);
    }
    /// Adds a typed window with strides in elements.
    uint32_t typed(const std::string& name, uint32_t buffer_index, int64_t offset, ElemType elem,
                   std::vector<int64_t> shape, std::vector<int64_t> strides) {
        uint64_t elements = 1;
        for (size_t d = 0; d < shape.size(); ++d)
            elements += static_cast<uint64_t>((shape[d] - 1) * strides[d]);
        const uint32_t index = region(name, buffer_index, offset, packed_bytes(elem, elements));
        BoundRegion& made = program.regions[index];
        made.elem = elem;
        made.shape.rank = made.strides.rank = static_cast<uint8_t>(shape.size());
        for (size_t d = 0; d < shape.size(); ++d) {
            made.shape[d] = shape[d];
            made.strides[d] = strides[d];
        }
        int64_t dense = 1;
        for (size_t d = shape.size(); d-- > 0; dense *= shape[d])
            made.dense &= shape[d] == 1 || strides[d] == dense;
        return index;
    }

    uint32_t transfer(const std::string& name, uint32_t dst, uint32_t src, std::vector<uint32_t> deps = {}) {
        const uint32_t statement = task(name, std::move(deps));
        at(statement).kind = proto::Task::TRANSFER;
        at(statement).inputs = {src};
        at(statement).outputs = {dst};
        return statement;
    }

    /// Gives statement s the source position line s + 1.
    void add_positions() {
        const auto module = std::make_shared<Module>();
        module->source.files = {"p.nem"};
        for (uint32_t s = 0; s < program.statements.size(); ++s)
            module->source.statements.push_back({0, s + 1, 1});
        program.module = module;
    }

  private:
    uint32_t add(BoundStatement::Kind kind, size_t index) {
        BoundStatement statement;
        statement.kind = kind;
        statement.index = static_cast<uint32_t>(index);
        statement.parent = open_.empty() ? -1 : static_cast<int32_t>(open_.back());
        program.statements.push_back(statement);
        return static_cast<uint32_t>(program.statements.size() - 1);
    }

    std::vector<uint32_t> open_;
};

}  // namespace kpu::execution::test
