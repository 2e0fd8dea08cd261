#include "model/dram/bank_observer.hpp"

namespace kpu::dram {

using traces::BankUse;

void BankObserver::on_command(const IssuedCommand& command) {
    switch (command.command) {
        case Command::read:
        case Command::write:
        case Command::activate:
            use(command);
            break;
        case Command::precharge:
            banks_[command.bank].closed_for_row = true;
            break;
        case Command::precharge_all:
            for (uint32_t b = 0; b < geometry_.banks_per_rank(); ++b)
                banks_[command.rank * geometry_.banks_per_rank() + b].closed_for_row = false;
            break;
        case Command::precharge_same:
            for (uint32_t g = 0; g < geometry_.groups; ++g)
                banks_[command.bank + g * geometry_.banks_per_group].closed_for_row = false;
            break;
        default:
            break;
    }
}

void BankObserver::use(const IssuedCommand& command) {
    Bank& bank = banks_[command.bank];
    if (command.command == Command::activate) {
        bank.next = bank.closed_for_row ? Row::conflict : Row::miss;
        bank.closed_for_row = false;
        return on_use({BankUse::Kind::activate, bank.next, false}, command);
    }
    const bool write = command.command == Command::write;
    const BankUse use{write ? BankUse::Kind::write : BankUse::Kind::read, bank.next,
                      moved_ && write != wrote_};
    bank.next = Row::hit;
    wrote_ = write;
    moved_ = true;
    on_use(use, command);
}

}  // namespace kpu::dram
