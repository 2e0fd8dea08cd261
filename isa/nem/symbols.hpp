#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kpu::nem {

struct Symbol {
    enum class Kind : uint8_t { constant, param, buffer, region, value, token, loop, poisoned };
    Kind kind = Kind::poisoned;  ///< poisoned: its declaration had an error; its uses are not reported again
    uint32_t index = 0;          ///< into the table of its kind; token: statement; loop: depth; value: let
    bool leaked = false;         ///< a token of a loop that has ended: visible, and free to be declared again
};

/// Names the kind for a message.
std::string_view name_of(Symbol::Kind kind);

/// The one scope of a program, with a block per loop. Names must outlive the table.
class SymbolTable {
  public:
    /// Makes room for that many names: growing step by step would hash them all again each time.
    void reserve(size_t names) { names_.reserve(names); }
    const Symbol* find(std::string_view name) const;
    /// Declares the name in the innermost block, unless a visible declaration stands: then returns that one.
    const Symbol* declare(std::string_view name, Symbol symbol);
    /// Does the same as declare, but the name outlives the block.
    const Symbol* declare_global(std::string_view name, Symbol symbol);
    void open_block();
    /// Forgets the block's names, but for its tokens, which stay visible.
    void close_block();
    /// Returns ". Fix: did you mean `x`?" with the nearest visible name of the kinds, or a general fix.
    std::string suggestion(std::string_view name, std::initializer_list<Symbol::Kind> kinds) const;

  private:
    const Symbol* add(std::string_view name, Symbol symbol, std::vector<std::string_view>& block);

    std::unordered_map<std::string_view, Symbol> names_;
    std::vector<std::vector<std::string_view>> blocks_{1};
};

}  // namespace kpu::nem
