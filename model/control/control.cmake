# kpu::control: loop windows, iteration threads, tokens, ready set; and what a task's execution does to memory.
kpu_library(control
  SOURCES control/program_plan.cpp control/controller.cpp control/issue.cpp control/explain.cpp control/describe.cpp
  LINK kpu::isa Boost::boost)
