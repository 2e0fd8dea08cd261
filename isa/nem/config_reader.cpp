#include "isa/nem/config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::nem {

bool ConfigReader::at_device_block() {
    return peek().is(Word::device) && peek(1).kind == TokenKind::name &&
           (peek(2).is('{') || peek(2).is_name("extends"));
}

unsigned ConfigReader::read_declarations() {
    unsigned devices = 0;
    for (;;) {
        try {
            if (peek().is_name("type_family")) {
                devices = 0;
                read_family();
            } else if (at_device_block()) {
                read_device();
                ++devices;
            } else {
                return devices;
            }
        } catch (const SyntaxError&) {
            recover();
        }
    }
}

void ConfigReader::recover() {
    while (!at_end() && !(peek().line_start && (peek().is_name("type_family") || peek().is(Word::device))))
        next();
}

void ConfigReader::append_name(const Token& name, ExprCode&) {
    fail(name, fmt::format("`{}` is not a number; configurations have no constants. Fix: write the value",
                           name.text));
}

void ConfigReader::declare(std::map<std::string, SourcePos>& names, const std::string& name, const Token& at,
                           std::string_view what) {
    const auto [entry, added] = names.emplace(name, pos_of(at));
    if (added) return;
    const SourcePos& first = entry->second;
    report(at, fmt::format("duplicate {} name {}, first declared at {}:{}. Fix: rename or remove one of them",
                           what, name, first.file, first.line));
}

// ---- devices

void ConfigReader::read_device() {
    const Token start = next();
    DeviceDecl device;
    device.pos = pos_of(start);
    const Token name = expect_identifier("a device name");
    device.name = name.text;
    if (accept_name("extends")) device.parent = expect_identifier("the name of the device it extends").text;
    declare(context_.devices, device.name, name, "device");
    expect('{', "to open the device");
    std::vector<std::string_view> seen;
    while (!peek().is('}')) {
        if (at_end()) fail_expected("`}` to close the device");
        read_device_section(device, seen);
    }
    const Token end = next();
    devices_end_ = end.offset + 1;
    check_device(device, name);
    context_.document.devices.push_back(std::move(device));
}

void ConfigReader::check_device(const DeviceDecl& device, const Token& name) {
    if (device.parent.empty()) {
        if (!device.spec_version)
            report(name, fmt::format("device {} has no spec_version. Fix: add spec_version = \"1.0\"",
                                     device.name));
        else if (!device.has_mandatory)
            report(name, fmt::format(
                             "base device {} has no opcode.mandatory block. Fix: add one, or extend a device",
                             device.name));
    } else if (device.spec_version) {
        report(name, fmt::format("device {} extends {} and may not set spec_version. Fix: remove it",
                                 device.name, device.parent));
    }
}

void ConfigReader::read_device_section(DeviceDecl& device, std::vector<std::string_view>& seen) {
    const Token section = peek();
    std::string_view key = section.text;
    if (section.is_name("opcode") && peek(1).is('.')) {
        next();
        next();
        key = peek().text;
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
        fail(peek(), fmt::format("second {} in device {}. Fix: merge the two", quoted(peek()), device.name));
    if (accept_name("spec_version")) {
        expect('=', "after spec_version");
        device.spec_version = expect_string("a version string");
    } else if (accept_name("topology")) {
        read_topology(device);
    } else if (accept_name("unit_characteristics")) {
        read_characteristics(device);
    } else if (accept_name("mandatory")) {
        device.has_mandatory = true;
        device.mandatory = read_variant_refs();
    } else if (accept_name("extended")) {
        device.extended = read_variant_refs();
    } else {
        fail(peek(), fmt::format("unknown part {} of a device. Fix: one of spec_version, topology, "
                                 "unit_characteristics, opcode.mandatory, opcode.extended",
                                 quoted(peek())));
    }
    seen.push_back(key);
}

int64_t ConfigReader::read_memory_size(std::string_view what) {
    expect('=', fmt::format("after {}", what));
    const Token start = peek();
    const ExprCode code = parse_integer_expr("memory sizes");
    const std::optional<int64_t> value = fold_integer(code, {});
    if (!value)
        fail(start, fmt::format("the value of {} does not fit in 64 bits. Fix: a size in bytes", what));
    if (*value <= 0)
        report(start,
               fmt::format("memory sizes must be > 0, {} is {}. Fix: give its size in bytes", what, *value));
    return *value;
}

int64_t ConfigReader::read_engine_count() {
    expect('=', "after num_engines");
    const Token at = peek();
    const int64_t count = expect_integer("the number of engines");
    if (count < 1) report(at, "num_engines must be at least 1. Fix: give the number of engines");
    return count;
}

void ConfigReader::read_topology(DeviceDecl& device) {
    const Token start = peek();
    expect('{', "to open the topology");
    device.has_topology = true;
    bool has_engines = false, has_l2 = false, has_units = false;
    while (!accept('}')) {
        if (accept_name("num_engines")) {
            device.num_engines = read_engine_count();
            has_engines = true;
        } else if (accept_name("l2_size_bytes")) {
            device.l2_size_bytes = read_memory_size("l2_size_bytes");
            has_l2 = true;
        } else if (accept_name("device_units")) {
            read_unit_counts(device.device_units, nullptr, 0);
        } else if (accept_name("per_engine")) {
            read_unit_counts(device.per_engine, &device, 1);
            has_units = true;
        } else {
            fail(peek(), fmt::format("unknown part {} of a topology. Fix: one of num_engines, l2_size_bytes, "
                                     "device_units, per_engine",
                                     quoted(peek())));
        }
    }
    if (!has_engines || !has_l2 || !has_units)
        report(start, fmt::format("the topology of device {} lacks {}. Fix: add it", device.name,
                                  !has_engines ? "num_engines"
                                  : !has_l2    ? "l2_size_bytes"
                                               : "per_engine"));
}

/// Reads unit counts; with `device`, also its l1_size_bytes (the per_engine block).
void ConfigReader::read_unit_counts(std::vector<UnitCount>& counts, DeviceDecl* device, int64_t minimum) {
    const Token start = peek();
    expect('{', "to open the unit counts");
    bool has_l1 = false;
    while (!accept('}')) {
        const Token name = expect_word("a unit");
        if (device != nullptr && name.text == "l1_size_bytes") {
            device->l1_size_bytes = read_memory_size("l1_size_bytes");
            has_l1 = true;
            continue;
        }
        const std::optional<UnitKind> kind = parse_unit_kind(name.text);
        if (!kind)
            fail(name, fmt::format("unknown unit {}. Fix: one of {}", quoted(name),
                                   names_of_units([](const UnitKindRow&) { return true; }, " ", " ")));
        if (std::any_of(counts.begin(), counts.end(), [&](const UnitCount& c) { return c.kind == *kind; }))
            report(name, fmt::format("second count of {}. Fix: remove one", name.text));
        expect('=', "after the unit");
        const Token at = peek();
        const int64_t count = expect_integer("the number of units");
        if (count < minimum)
            report(at, fmt::format("the number of {} units must be at least {}. Fix: change it", name.text,
                                   minimum));
        counts.push_back({*kind, count, pos_of(name)});
    }
    if (device != nullptr && !has_l1) report(start, "per_engine lacks l1_size_bytes. Fix: add it");
}

void ConfigReader::read_characteristics(DeviceDecl& device) {
    expect('{', "to open unit_characteristics");
    while (!accept('}')) {
        const std::string unit(expect_word("a unit").text);
        expect('{', "to open the unit's characteristics");
        std::vector<Characteristic> values;
        while (!accept('}')) {
            const Token key = expect_word("a characteristic");
            expect('=', "after the characteristic");
            values.push_back({std::string(key.text), expect_integer("a characteristic"), pos_of(key)});
        }
        device.characteristics.emplace_back(unit, std::move(values));
    }
}

std::vector<VariantRef> ConfigReader::read_variant_refs() {
    expect('{', "to open the list of variants");
    std::vector<VariantRef> refs;
    while (!accept('}')) refs.push_back(read_variant_ref());
    return refs;
}

/// Reads fam targs? '.' ID: without type arguments the last dot separates the variant.
VariantRef ConfigReader::read_variant_ref() {
    const Token start = peek();
    VariantRef ref;
    ref.pos = pos_of(start);
    ref.family = read_dotted_name();
    if (peek().is('<')) {
        ref.types = read_type_args();
        expect('.', "before the variant");
        ref.variant = expect_word("a variant name").text;
        return ref;
    }
    const size_t dot = ref.family.rfind('.');
    if (dot == std::string::npos)
        fail(start, fmt::format("{} names no variant. Fix: write {}.default", quoted(start), ref.family));
    ref.variant = ref.family.substr(dot + 1);
    ref.family.resize(dot);
    return ref;
}

// ---- type families

std::string ConfigReader::read_dotted_name() {
    std::string name(expect_word("a family name").text);
    while (peek().is('.') && peek(1).kind == TokenKind::name) {
        next();
        name += '.';
        name += next().text;
    }
    return name;
}

std::vector<ElemType> ConfigReader::read_type_args() {
    expect('<', "before the type arguments");
    std::vector<ElemType> types;
    do {
        types.push_back(expect_elem_type());
    } while (accept(','));
    expect('>', "after the type arguments");
    return types;
}

void ConfigReader::read_family_parameters(TypeFamily& family) {
    if (!accept('<')) return;
    do {
        const Token name = expect_identifier("a type parameter");
        expect(':', "after the type parameter");
        expect('{', "before the parameter's types");
        std::vector<ElemType> types;
        do {
            types.push_back(expect_elem_type());
        } while (accept(','));
        expect('}', "after the parameter's types");
        for (const auto& other : family.parameters) {
            if (other.first == name.text)
                report(name, fmt::format("second type parameter {}. Fix: rename one", name.text));
        }
        family.parameters.emplace_back(name.text, std::move(types));
    } while (accept(','));
    expect('>', "after the type parameters");
}

void ConfigReader::read_family() {
    const Token start = next();
    TypeFamily family;
    const Token name = peek();
    family.pos = pos_of(name);
    family.name = read_dotted_name();
    read_family_parameters(family);
    expect('{', "to open the type family");
    while (!(peek().is_name("variants") && peek(1).is(':'))) {
        if (peek(1).is('=')) {
            family.attrs.push_back(read_attr());
        } else {
            family.binds.push_back(read_bind(family));
        }
    }
    next();
    next();
    while (!peek().is('}')) {
        const Token at = peek();
        TypeFamily::Variant variant = read_variant(family);
        for (const TypeFamily::Variant& other : family.variants) {
            if (other.name == variant.name)
                report(at,
                       fmt::format("second variant {} of {}. Fix: rename one", variant.name, family.name));
        }
        family.variants.push_back(std::move(variant));
    }
    const Token end = next();
    family.text = lexer_.text().substr(start.offset, end.offset + 1 - start.offset);
    declare(context_.families, family.name, name, "type family");
    context_.document.families.push_back(std::move(family));
}

TypeFamily::Bind ConfigReader::read_bind(const TypeFamily& family) {
    using Kind = TypeFamily::Bind::Kind;
    TypeFamily::Bind bind;
    bind.operand = expect_word("an operand, or `variants:`").text;
    expect(':', "after the operand");
    const Token value = expect_word("the operand's type");
    const auto is_value = [&](const auto& parameter) { return parameter.first == value.text; };
    if (value.is(Word::elem_type)) {
        bind.type = *parse_elem_type(value.text);
    } else if (value.text == "absent") {
        bind.kind = Kind::absent;
    } else if (value.text == "any_supported") {
        bind.kind = Kind::any;
    } else if (std::any_of(family.parameters.begin(), family.parameters.end(), is_value)) {
        bind.kind = Kind::parameter;
        bind.parameter = value.text;
    } else {
        fail(value,
             fmt::format("{} is neither an element type nor a parameter of {}. Fix: use one, absent or "
                         "any_supported",
                         quoted(value), family.name));
    }
    return bind;
}

TypeFamily::Attr ConfigReader::read_attr() {
    TypeFamily::Attr attr;
    attr.name = expect_word("an attribute").text;
    expect('=', "after the attribute");
    attr.value = expect_word("the attribute's value").text;
    if (peek().is_name("on") && peek(1).kind == TokenKind::name) {
        next();
        attr.on = next().text;
    }
    return attr;
}

TypeFamily::Variant ConfigReader::read_variant(const TypeFamily& family) {
    TypeFamily::Variant variant;
    const Token name = expect_word("a variant name");
    variant.pos = pos_of(name);
    variant.name = name.text;
    expect(':', "after the variant name");
    expect('{', "to open the variant");
    while (!accept('}')) variant.binds.push_back(read_bind(family));
    expect_name("conformance", "after the variant");
    expect(':', "after conformance");
    expect('{', "to open the conformance list");
    while (!accept('}')) {
        const Token at = peek();
        const bool must = at.is_name("MUST");
        if (!must && !at.is_name("MAY")) fail_expected("MUST or MAY");
        next();
        std::vector<ElemType> types;
        if (peek().is('<')) types = read_type_args();
        check_conformance(family, types, at);
        variant.conformance.emplace_back(must, std::move(types));
    }
    return variant;
}

void ConfigReader::check_conformance(const TypeFamily& family, const std::vector<ElemType>& types,
                                     const Token& at) {
    if (types.size() != family.parameters.size()) {
        report(at, fmt::format("{} has {} type parameters, this entry gives {}. Fix: give one type each",
                               family.name, family.parameters.size(), types.size()));
        return;
    }
    for (size_t i = 0; i < types.size(); ++i) {
        const auto& [name, allowed] = family.parameters[i];
        if (std::find(allowed.begin(), allowed.end(), types[i]) == allowed.end())
            report(at, fmt::format("{} is not among the types of parameter {}. Fix: add it there",
                                   name_of(types[i]), name));
    }
}

}  // namespace kpu::nem
