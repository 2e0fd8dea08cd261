# kpu::model: the hardware in SystemC, composed from a platform.
kpu_library(model
  SOURCES accounting/accounting.cpp accounting/device_timeline.cpp accounting/energy_booking.cpp
          accounting/execution.cpp accounting/waiting.cpp accounting/work_counts.cpp accounting/work_table.cpp
          unit/worker.cpp array/array_unit.cpp vector/vector_unit.cpp dma/dma_unit.cpp
          sequencer/sequencer.cpp sequencer/task_arbiter.cpp sequencer/task_board.cpp
          device/device.cpp device/module_list.cpp device/sim_context.cpp device/statistics.cpp
  LINK kpu::interconnect kpu::memory kpu::execution kpu::timing kpu::values kpu::traces kpu::platforms)
