#include "isa/nem/symbols.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace kpu::nem {

std::string_view name_of(Symbol::Kind kind) {
    constexpr std::string_view names[] = {"const", "param", "buffer",        "region",
                                          "let",   "token", "loop variable", "name"};
    return names[static_cast<size_t>(kind)];
}

const Symbol* SymbolTable::find(std::string_view name) const {
    const auto entry = names_.find(name);
    return entry == names_.end() ? nullptr : &entry->second;
}

const Symbol* SymbolTable::add(std::string_view name, Symbol symbol, std::vector<std::string_view>& block) {
    const auto [entry, added] = names_.try_emplace(name, symbol);
    if (!added) {
        if (!entry->second.leaked) return &entry->second;
        entry->second = symbol;
    }
    block.push_back(name);
    return nullptr;
}

const Symbol* SymbolTable::declare(std::string_view name, Symbol symbol) {
    return add(name, symbol, blocks_.back());
}

const Symbol* SymbolTable::declare_global(std::string_view name, Symbol symbol) {
    return add(name, symbol, blocks_.front());
}

void SymbolTable::open_block() { blocks_.emplace_back(); }

void SymbolTable::close_block() {
    for (const std::string_view name : blocks_.back()) {
        const auto entry = names_.find(name);
        if (entry == names_.end()) continue;
        if (entry->second.kind == Symbol::Kind::token || entry->second.kind == Symbol::Kind::poisoned) {
            entry->second.leaked = true;
        } else {
            names_.erase(entry);
        }
    }
    blocks_.pop_back();
}

std::string SymbolTable::suggestion(std::string_view name, std::initializer_list<Symbol::Kind> kinds) const {
    std::vector<std::string_view> candidates;
    for (const auto& [candidate, symbol] : names_) {
        if (std::find(kinds.begin(), kinds.end(), symbol.kind) != kinds.end())
            candidates.push_back(candidate);
    }
    if (candidates.empty()) return ". Fix: declare it before its first use";
    std::sort(candidates.begin(), candidates.end());  // the table has no order of its own
    return fmt::format(". Fix: did you mean `{}`? Names are declared before their first use",
                       nearest_name(name, candidates));
}

}  // namespace kpu::nem
