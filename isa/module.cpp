#include "isa/module.hpp"

namespace kpu {
namespace {

SourcePos position(const Module& module, const std::vector<SourceMap::Place>& places, size_t index) {
    if (index >= places.size()) return {module.origin, 0, 0};
    const SourceMap::Place& place = places[index];
    const std::vector<std::string>& files = module.source.files;
    return {place.file < files.size() ? files[place.file] : module.origin, place.line, place.column};
}

}  // namespace

Module::Module()
    : arena_(std::make_shared<google::protobuf::Arena>()),
      program(*google::protobuf::Arena::CreateMessage<KPUProgram>(arena_.get())) {}

Module::Module(const Module& other) : Module() { *this = other; }

Module& Module::operator=(const Module& other) {
    if (!arena_ || !other.arena_) throw InternalError("a moved-from Module may only be destroyed");
    program = other.program;
    source = other.source;
    data = other.data;
    origin = other.origin;
    return *this;
}

SourcePos Module::pos_of_statement(size_t index) const {
    SourcePos pos = position(*this, source.statements, index);
    pos.statement = static_cast<uint32_t>(index);
    return pos;
}
SourcePos Module::pos_of_region(size_t index) const { return position(*this, source.regions, index); }
SourcePos Module::pos_of_buffer(size_t index) const { return position(*this, source.buffers, index); }
SourcePos Module::pos_of_constant(size_t index) const { return position(*this, source.constants, index); }

}  // namespace kpu
