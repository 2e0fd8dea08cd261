#pragma once
// Helpers that the readers and writers of the forms share; forms.hpp is the interface.
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/diagnostics.hpp"
#include "compiler/tile_schedule/forms.hpp"

namespace kpu::tile_schedule {

constexpr std::string_view format_name = "kpusim.tile_schedule/1";

std::optional<Role> parse_role(std::string_view name);  ///< also `any`, which only tensors of an engine have

/// Fills a header, refusing what cannot be; each result says why not, or is empty.
class HeaderBuilder {
  public:
    explicit HeaderBuilder(Header& header) : header_(header) {}
    std::string set_tile(uint64_t tile, ElemType elem);
    std::string add(Tensor tensor);
    void sort();  ///< when all tensors are there

  private:
    Header& header_;
    std::unordered_set<std::string> names_;
    std::unordered_set<uint32_t> ids_;
};

bool is_text(std::string_view bytes);
void read_text(std::string_view text, Schedule& schedule);
std::string write_text(const Schedule& schedule);

bool is_packed(std::string_view bytes);
void read_packed(std::string_view bytes, Schedule& schedule);
std::string write_packed(const Schedule& schedule);

bool is_protobuf(std::string_view bytes);
void read_protobuf(std::string_view bytes, Schedule& schedule);
std::string write_protobuf(const Schedule& schedule);

bool is_json(std::string_view bytes);
void read_json(std::string_view bytes, Schedule& schedule);
std::string write_json(const Schedule& schedule);

}  // namespace kpu::tile_schedule
