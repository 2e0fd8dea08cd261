#include "execution/access_frontier.hpp"

#include <algorithm>
#include <unordered_map>

#include "isa/footprint_runs.hpp"

namespace kpu::execution {
namespace {

bool same(const Footprint& a, const Footprint& b) {
    return a.address == b.address && a.run_bytes == b.run_bytes && a.dims == b.dims &&
           std::equal(a.count, a.count + a.dims, b.count) &&
           std::equal(a.stride_bytes, a.stride_bytes + a.dims, b.stride_bytes);
}

uint64_t runs_of(const Footprint& f, uint64_t most) {
    uint64_t runs = 1;
    for (int d = 0; d < f.dims && runs <= most; ++d) runs *= static_cast<uint64_t>(f.count[d]);
    return runs;
}

const auto cut = [](const auto&) {};

}  // namespace

Footprint AccessFrontier::bytes_of(uint32_t index) const {
    const BoundRegion& region = program_.regions[index];
    const int64_t address =
        region.address.is_constant() ? region.address.constant : region.address.eval(LoopValues{});
    if (address < 0 || static_cast<uint64_t>(address) > max_level_bytes) return {};  // told elsewhere
    return footprint_of(region, static_cast<uint64_t>(address));
}

bool AccessFrontier::add(const Access& access) {
    bytes_ = bytes_of(access.region);
    racing_ = false;
    if (bytes_.run_bytes == 0) return false;
    const uint64_t runs = runs_of(bytes_, runs_of_a_region);
    now_.statement = access.statement;
    now_.region = access.region & 0x7fffffff;
    now_.gaps = runs > runs_of_a_region || runs_ + runs > runs_in_all;
    writes_ = access.write;
    touched_.clear();
    auto near = pieces_.at_or_behind(bytes_.address);
    if (now_.gaps) {
        cover(bytes_.address, bytes_.end(), near);
    } else {
        runs_ += bytes_.dims > 0 ? runs : 0;
        for_each_run(bytes_, [&](uint64_t first, uint64_t bytes) {
            near = cover(first, first + bytes, near);
            return true;
        });
    }
    return racing_;
}

/// Returns the first piece after it.
AccessFrontier::Pieces::Place AccessFrontier::cover(uint64_t first, uint64_t end, Pieces::Place near) {
    auto it = pieces_.split(first, near, cut);
    pieces_.split(end, it, cut);
    for (uint64_t next = first; next < end; ++it) {
        if (it == pieces_.end() || it->first > next) {  // never touched
            const uint64_t known = it == pieces_.end() ? end : std::min(end, it->first);
            it = pieces_.add(it, next, known, {});
        }
        enter(it->second.value);
        next = it->second.end;
        it = joined(it);
    }
    return it;
}

/// Joins a piece with the one before it, if both have the new access alone.
AccessFrontier::Pieces::Place AccessFrontier::joined(Pieces::Place it) {
    if (it == pieces_.begin() || !is_alone(it->second.value)) return it;
    const auto last = std::prev(it);
    if (last->second.end != it->first || !is_alone(last->second.value) ||
        last->second.value.writers != it->second.value.writers)
        return it;
    last->second.end = it->second.end;
    pieces_.erase(it);
    return last;
}

void AccessFrontier::enter(Members& members) { writes_ ? enter_write(members) : enter_read(members); }

void AccessFrontier::enter_write(Members& members) {
    uint32_t kept = 0, writers = 0;
    for (uint32_t m = 0; m < members.list.size(); ++m) {
        const Member member = members.list[m];
        const bool ordered = before(member);
        if (!ordered && !racing_ && touches(member)) racing_ = true;
        if (ordered && takes_place_of(member)) continue;
        writers += m < members.writers;
        members.list[kept++] = member;
    }
    members.list.resize(kept);
    members.list.insert(members.list.begin() + writers, now_);
    members.writers = writers + 1;
    members.look_at = few_readers;
}

void AccessFrontier::enter_read(Members& members) {
    for (uint32_t m = 0; m < members.writers && !racing_; ++m)
        if (!before(members.list[m]) && touches(members.list[m])) racing_ = true;
    const auto readers = members.list.begin() + members.writers;
    if (readers != members.list.end() && members.list.back() == now_) return;
    if (members.list.size() - members.writers < few_readers) {
        const auto says_no_more = [&](const Member& member) {
            return before(member) && takes_place_of(member);
        };
        members.list.erase(std::remove_if(readers, members.list.end(), says_no_more), members.list.end());
    } else if (members.list.size() - members.writers >= members.look_at) {
        drop_readers(members);
        members.look_at = 2 * static_cast<uint32_t>(members.list.size() - members.writers) + few_readers;
    }
    members.list.push_back(now_);
}

/// Drops readers that need not be kept: the last of each chain says all; of those that nothing comes after,
/// any one does: whoever writes races with it.
void AccessFrontier::drop_readers(Members& members) const {
    std::unordered_map<uint32_t, uint32_t> last;  // by chain: statement
    const auto readers = members.list.begin() + members.writers;
    std::for_each(readers, members.list.end(), [&](const Member& member) {
        if (member.gaps) return;
        uint32_t& statement = last[order_.chain_of(member.statement)];
        statement = std::max(statement, member.statement);
    });
    const auto says_no_more = [&](const Member& member) {
        const auto known = last.find(order_.chain_of(member.statement));
        if (known == last.end() || known->second == member.statement) return false;
        return !member.gaps || (known->first != ChainOrder::none && member.statement < known->second);
    };
    members.list.erase(std::remove_if(readers, members.list.end(), says_no_more), members.list.end());
}

/// True if the new access touches all bytes that the earlier member touches here.
bool AccessFrontier::takes_place_of(const Member& member) const {
    return !now_.gaps || (member.gaps && same(bytes_, bytes_of(member.region)));
}

bool AccessFrontier::touches(const Member& member) {
    if (!now_.gaps && !member.gaps) return true;
    const auto known = std::find_if(touched_.begin(), touched_.end(),
                                    [&](const auto& entry) { return entry.first == member.region; });
    if (known != touched_.end()) return known->second;
    const bool result = overlap(bytes_, bytes_of(member.region));
    if (touched_.size() < few_readers) touched_.emplace_back(member.region, result);
    return result;
}

std::vector<Access> AccessFrontier::near(uint64_t first, uint64_t end, bool write) {
    std::vector<Access> found;
    auto it = pieces_.at_or_behind(first);
    if (it != pieces_.begin() && std::prev(it)->second.end > first) --it;
    for (; it != pieces_.end() && it->first < end; ++it) {
        const Members& members = it->second.value;
        for (uint32_t m = 0; m < (write ? members.list.size() : members.writers); ++m)
            found.push_back({members.list[m].statement, members.list[m].region, m < members.writers});
    }
    const auto key = [](const Access& a) { return std::make_tuple(a.statement, a.region, a.write); };
    std::sort(found.begin(), found.end(), [&](const Access& a, const Access& b) { return key(a) < key(b); });
    found.erase(std::unique(found.begin(), found.end(),
                            [&](const Access& a, const Access& b) { return key(a) == key(b); }),
                found.end());
    return found;
}

}  // namespace kpu::execution
