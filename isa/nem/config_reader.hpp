#pragma once

#include "isa/nem/reader.hpp"

namespace kpu::nem {

/// Reads the declarations of configuration documents: type families and devices.
class ConfigReader : public Reader {
  public:
    using Reader::Reader;

    /// Reads `type_family` and `device` blocks while they follow. Leaves everything else, device directives
    /// included. Returns the number of device blocks read since the last type family.
    unsigned read_declarations();
    /// True at `device NAME {` or `device NAME extends`.
    bool at_device_block();

  protected:
    void append_name(const Token& name, ExprCode& code) override;

    size_t devices_end_ = 0;  ///< offset after the last device block

  private:
    void read_device();
    void read_device_section(DeviceDecl& device, std::vector<std::string_view>& seen);
    void read_topology(DeviceDecl& device);
    void read_unit_counts(std::vector<UnitCount>& counts, DeviceDecl* device, int64_t minimum);
    void read_characteristics(DeviceDecl& device);
    std::vector<VariantRef> read_variant_refs();
    VariantRef read_variant_ref();
    int64_t read_memory_size(std::string_view what);
    int64_t read_engine_count();
    void check_device(const DeviceDecl& device, const Token& name);

    void read_family();
    std::string read_dotted_name();
    std::vector<ElemType> read_type_args();
    void read_family_parameters(TypeFamily& family);
    TypeFamily::Bind read_bind(const TypeFamily& family);
    TypeFamily::Attr read_attr();
    TypeFamily::Variant read_variant(const TypeFamily& family);
    void check_conformance(const TypeFamily& family, const std::vector<ElemType>& types, const Token& at);
    void declare(std::map<std::string, SourcePos>& names, const std::string& name, const Token& at,
                 std::string_view what);
    void recover();
};

}  // namespace kpu::nem
