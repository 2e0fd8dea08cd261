#pragma once
// Blocks of equations to kernel statements.
#include "compiler/pallas/kernel_writer.hpp"

namespace kpu::compiler::pallas {

class Body {
  public:
    Body(const Call& call, KernelWriter& writer) : call_(call), out_(writer), names_(call.variables.size()) {}

    void place_ref(int variable, RefPlace place) { refs_[variable] = std::move(place); }
    RefPlace& ref_place(int variable) { return refs_.at(variable); }
    /// Sets the names of the grid's indices and sizes, for program_id and num_programs.
    void set_grid(std::vector<std::string> indices, std::vector<std::string> sizes) {
        indices_ = std::move(indices);
        sizes_ = std::move(sizes);
    }
    void name_variable(int variable, std::string name) {
        names_[static_cast<size_t>(variable)] = std::move(name);
    }
    void equations(const Block& block);
    /// Returns an atom as an expression.
    std::string text(const Atom& atom) const;
    /// Returns a new workgroup buffer for a ref of this type: scratch.
    RefPlace scratch(const VariableType& type, const std::string& name);

  private:
    // body.cpp: element-wise operations, moves, reductions
    void equation(const Equation& e);
    bool elementwise(const Equation& e);
    bool shaped(const Equation& e);
    bool reduction(const Equation& e);
    void gather(const Equation& e);
    void sort(const Equation& e);
    std::string total_order(const Equation& e);
    void top_k(const Equation& e);
    void bitcast_last(const Equation& e);
    void result(const Equation& e, const std::string& value, size_t at = 0);
    const Atom& operand(const Equation& e, size_t at) const;
    std::string in(const Equation& e, size_t at) const;
    std::string spread(const Equation& e, size_t at) const;
    const VariableType& out_type(const Equation& e, size_t at = 0) const;
    const std::string& name_of(int variable) const { return names_[static_cast<size_t>(variable)]; }
    const VariableType& type_of(const Atom& atom) const;
    std::string index(const Atom& atom) const;
    [[noreturn]] void refuse(const Equation& e, const std::string& why) const;

    // refs.cpp
    bool access(const Equation& e);
    bool copies(const Equation& e);
    RefView view(const Equation& e, const Ref& ref) const;
    const RefPlace& place(const Equation& e, const Ref& ref) const;
    std::string load(const Equation& e, const Ref& ref);
    void store(const Equation& e, const Ref& ref, const std::string& value);
    std::string direct_load(const RefView& view, const std::string& mask = "");
    void direct_store(const RefView& view, const std::string& value, const std::string& mask = "");
    void masked_load(const Equation& e, const Ref& ref);
    void masked_store(const Equation& e, const Ref& ref);
    std::string mask(const Equation& e, size_t at, const RefView& view);
    struct Value {
        std::string name;
        Type type = Type::none;
        Shape shape;
    };
    void check_permutation(const Equation& e, size_t rank, const Shape& numbers) const;
    Value transformed(const Equation& e, const Value& x, const Transform& transform);
    std::string untransformed(const Equation& e, const Value& before, const Transform& transform,
                              const Value& after);
    Value places_of(const Equation& e, const Shape& shape, const Transform& transform);
    std::string semaphore(const Equation& e, const Ref& ref, std::string& index);

    // random.cpp
    bool random(const Equation& e);

    // control.cpp
    bool control(const Equation& e);
    void cond(const Equation& e, size_t branch, const std::string& which);
    void scan(const Equation& e);
    void while_loop(const Equation& e);
    void run_scoped(const Equation& e);
    std::string declared(const VariableType& type);
    void assign_all(const std::vector<std::string>& names, const std::vector<Atom>& values);
    void assign_rows(const Equation& e, const std::vector<std::string>& names,
                     const std::vector<Atom>& values, const Shape& rows, const std::string& going);

    const Call& call_;
    KernelWriter& out_;
    std::unordered_map<int, RefPlace> refs_;
    std::vector<std::string> names_;  ///< names of variables; empty: it has no value yet
    std::vector<std::string> indices_, sizes_;
};

}  // namespace kpu::compiler::pallas
